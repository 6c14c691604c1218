package config

import (
	"crypto/tls"
	"crypto/x509"
)

func (r *reader) listenerTLS(t *table) *ListenerTLS {
	l := &ListenerTLS{}
	for _, entry := range r.list(t.get("certificates")) {
		pair := r.table(entry)
		l.Certificates = append(l.Certificates, r.certificate(pair))
		pair.end()
	}
	if !t.has("certificates") {
		r.fault(t.path, "write certificates: [{cert: tls.crt, key: tls.key}]",
			"tls has no certificates")
	} else if len(l.Certificates) == 0 {
		r.fault(t.join("certificates"), "write [{cert: tls.crt, key: tls.key}]",
			"tls has no certificates")
	}
	if t.has("client_ca") {
		l.ClientAuth = "required"
		l.ClientCA = r.inFolder(value(t, "client_ca", "", parseText, filled))
		r.clientCA(t.join("client_ca"), l.ClientCA)
	} else {
		t.get("client_ca")
	}
	l.ClientAuth = value(t, "client_auth", l.ClientAuth, oneOf("required", "optional"))
	if t.has("client_auth") && !t.has("client_ca") {
		r.fault(t.join("client_auth"), "set client_ca or take it out",
			"it says nothing without client_ca")
	}
	t.end()
	return l
}

// certificate reads a pair and proves that the two belong together.
func (r *reader) certificate(t *table) Certificate {
	for _, key := range []string{"cert", "key"} {
		if !t.has(key) {
			r.fault(t.path, "write {cert: tls.crt, key: tls.key}", "the certificate has no %s file", key)
		}
	}
	pair := Certificate{
		Cert: r.inFolder(value(t, "cert", "", parseText, filled)),
		Key:  r.inFolder(value(t, "key", "", parseText, filled)),
	}
	if !t.has("cert") || !t.has("key") {
		return pair
	}
	cert, ok := r.pem(t.join("cert"), pair.Cert)
	if !ok {
		return pair
	}
	key, ok := r.pem(t.join("key"), pair.Key)
	if !ok {
		return pair
	}
	if _, err := tls.X509KeyPair(cert, key); err != nil {
		r.fault(t.path, "name a certificate chain and its own key, both PEM",
			"%s and %s are no pair: %v", pair.Cert, pair.Key, err)
	}
	return pair
}

func (r *reader) clientCA(path, file string) {
	if pem, ok := r.pem(path, file); ok && !x509.NewCertPool().AppendCertsFromPEM(pem) {
		r.fault(path, "name a file of PEM certificates", "%s holds no certificate", file)
	}
}

func (r *reader) pem(path, file string) ([]byte, bool) {
	text, err := r.options.ReadFile(file)
	if err != nil {
		r.fault(path, "make it readable for sluice, or name another", "the file cannot be read: %v", err)
		return nil, false
	}
	return text, true
}
