package main

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"sluice/bench/referee"
)

const (
	handshakesLeast = 2.0 // CPU of the others for a full handshake over that of the data plane
	bulkLeast       = 1.3 // the same for bytes
	tlsConnections  = "16"
	tlsWarmUp       = time.Second
	nginxReady      = 5 * time.Second
)

// way is one kind of work that is measured on every server.
type way struct {
	name  string
	how   string // what the generator does
	bytes int
}

var ways = []way{
	{"full handshake", "full", 2 << 10},
	{"resumed handshake", "resumed", 2 << 10},
	{"hybrid handshake", "pq", 2 << 10},
	{"keep-alive 2 KiB", "keep-alive", 2 << 10},
	{"keep-alive 256 KiB", "keep-alive", 256 << 10},
}

// certificate is a pair of PEM files, of the curve that most certificates have today.
type certificate struct{ cert, key string }

func newCertificate(dir string) (*certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "localhost"},
		DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return nil, err
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	c := &certificate{filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")}
	for _, file := range []struct {
		path, kind string
		der        []byte
	}{{c.cert, "CERTIFICATE", der}, {c.key, "PRIVATE KEY", private}} {
		text := pem.EncodeToMemory(&pem.Block{Type: file.kind, Bytes: file.der})
		if err := os.WriteFile(file.path, text, 0o600); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// terminator is a server that ends TLS, reads the request and answers 404.
type terminator struct {
	name  string
	plain string // http://HOST:PORT, where it has one
	base  string // https://HOST:PORT
	usage func() (usage, error)
	stop  func()
}

// secured measures what TLS costs the data plane beside nginx and crypto/tls, and beside plain
// HTTP. All of them read a body that nobody wants, so that nothing but TLS and HTTP is compared.
func secured(out *referee.Result, o options) (int, error) {
	dir, err := os.MkdirTemp(o.dir, "tls-")
	if err == nil {
		dir, err = filepath.Abs(dir)
	}
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	c, err := newCertificate(dir)
	if err != nil {
		return 0, err
	}
	// The bound on handshakes is not what is measured.
	g, err := startListening(o, dir, "http: {handshake_rate: 0}\n", c,
		[]source{{name: "github", acknowledge: "ring"}})
	if err != nil {
		return 0, err
	}
	defer g.stop()
	all := []terminator{{
		name: "sluice", plain: g.base, base: g.secure, stop: func() {},
		usage: func() (usage, error) { return sluiceUsage(g.cmd.Process.Pid, g.metrics) },
	}}
	for _, start := range []func(options, string, *certificate) (terminator, error){
		startNginx, startCryptoTLS,
	} {
		t, err := start(o, dir, c)
		if err != nil {
			fmt.Fprintf(out, "left out: %v\n", err)
			continue
		}
		defer t.stop()
		all = append(all, t)
	}
	rows := map[string]map[string]tlsRow{} // by way and server
	var left []string                      // a line across the table would break its columns
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "way\tserver\treq/s\tCPU µs/req\tof the data plane's\tagreed on\tother CPU")
	for _, way := range ways {
		rows[way.name] = map[string]tlsRow{}
		for _, t := range all {
			if !o.wants(way.name) {
				continue
			}
			fmt.Fprintf(os.Stderr, "tls: %s, %s\n", way.name, t.name)
			r, err := measureTLS(o, t.usage, t.base, way)
			if err != nil {
				left = append(left, fmt.Sprintf("left out: %s, %s: %v", way.name, t.name, err))
				continue
			}
			rows[way.name][t.name] = r
			r.print(w, way.name, t.name, rows[way.name]["sluice"])
		}
		if way.how == "keep-alive" && o.wants(way.name) {
			r, err := measureTLS(o, all[0].usage, all[0].plain, way)
			if err != nil {
				return 0, err
			}
			r.agreed = "plain"
			r.print(w, way.name, "sluice, plain", rows[way.name]["sluice"])
		}
	}
	if err := w.Flush(); err != nil {
		return 0, err
	}
	for _, text := range left {
		fmt.Fprintln(out, text)
	}
	return referee.PrintGates(out, judgeTLS(rows)), nil
}

func judgeTLS(rows map[string]map[string]tlsRow) (list []referee.Gate) {
	for _, gate := range []struct {
		way   string
		least float64
	}{{"full handshake", handshakesLeast}, {"keep-alive 256 KiB", bulkLeast}} {
		for _, peer := range []string{"nginx", "crypto/tls"} {
			ours, theirs := rows[gate.way]["sluice"], rows[gate.way][peer]
			if ours.cpuUs == 0 || theirs.cpuUs == 0 {
				continue
			}
			ratio := theirs.cpuUs / ours.cpuUs
			v := referee.Gate{
				Name:  fmt.Sprintf("%s: %s needs %.1f times the CPU", gate.way, peer, gate.least),
				Shown: fmt.Sprintf("%.2f times", ratio),
			}
			v.Judge(ratio >= gate.least, ours.other, theirs.other)
			list = append(list, v)
		}
	}
	return list
}

// tlsRow is what one server did with one kind of work.
type tlsRow struct {
	perS, cpuUs float64
	agreed      string
	other       referee.Cores
}

// print is a line of the table; what stands beside it is the data plane's own.
func (r tlsRow) print(w io.Writer, way, server string, own tlsRow) {
	fmt.Fprintf(w, "%s\t%s\t%.0f\t%.1f\t%.2fx\t%s\t%.2f%s\n", way, server, r.perS, r.cpuUs,
		r.cpuUs/own.cpuUs, r.agreed, r.other, r.other.Mark())
}

func measureTLS(o options, read func() (usage, error), base string, w way) (tlsRow, error) {
	if _, err := postTLS(o, base, w, tlsWarmUp); err != nil {
		return tlsRow{}, err
	}
	before, err := settle(read)
	if err != nil {
		return tlsRow{}, err
	}
	watch, own := referee.StartWatch(), referee.Own()
	p, err := postTLS(o, base, w, o.length)
	if err != nil {
		return tlsRow{}, err
	}
	after, err := settle(read)
	if err != nil {
		return tlsRow{}, err
	}
	cpu := after.minus(before)
	return tlsRow{
		perS: float64(p.Requests) / p.Seconds, cpuUs: cpu.total() * 1e6 / float64(max(p.Requests, 1)),
		other:  watch.Others(cpu.total() + p.own + referee.Own() - own),
		agreed: p.Curve + " " + p.Cipher,
	}, nil
}

// posted is what the generator reports, with the CPU seconds that it used itself.
type posted struct {
	Requests, Failed, Resumed uint64
	Seconds                   float64
	Curve, Cipher             string
	own                       float64
}

// postTLS runs the generator. A way that was not gone is no result.
func postTLS(o options, base string, w way, length time.Duration) (posted, error) {
	cmd := command(o, generatorCPU(), o.peers, "tls-post", "--url", base+"/nobody/is/here",
		"--way", w.how, "--pool", tlsConnections, "--bytes", strconv.Itoa(w.bytes),
		"--duration", length.String())
	cmd.Stderr = os.Stderr
	data, err := cmd.Output()
	if err != nil {
		return posted{}, err
	}
	var p posted
	if err := json.NewDecoder(bytes.NewReader(data)).Decode(&p); err != nil {
		return posted{}, err
	}
	state := cmd.ProcessState
	p.own = (state.UserTime() + state.SystemTime()).Seconds()
	switch {
	case p.Requests == 0:
		return p, fmt.Errorf("none of %d requests was answered", p.Failed)
	case p.Failed > p.Requests/1000:
		return p, fmt.Errorf("%d requests failed beside %d", p.Failed, p.Requests)
	case w.how == "resumed" && p.Resumed < p.Requests/2:
		return p, fmt.Errorf("only %d of %d handshakes were resumed", p.Resumed, p.Requests)
	}
	return p, nil
}

func startCryptoTLS(o options, dir string, c *certificate) (terminator, error) {
	p, err := launchPeer(o, "tls", dir, "--cert", c.cert, "--key", c.key)
	if err != nil {
		return terminator{}, err
	}
	return terminator{
		name: "crypto/tls", base: "https://" + strings.TrimPrefix(p.base, "http://"), stop: p.stop,
		usage: func() (usage, error) { return peerUsage(p.cmd.Process.Pid) },
	}, nil
}

// nginxConfig has one worker, as the data plane has, and says no to every path.
const nginxConfig = `daemon off; master_process off; worker_processes 1; pid %[1]s/nginx.pid;
error_log %[1]s/nginx.log error;
events { worker_connections 1024; }
http {
  access_log off; client_body_temp_path %[1]s; client_max_body_size 32m;
  client_body_buffer_size 512k; keepalive_requests 1000000000; ssl_session_tickets on;
  server {
    listen %[2]s ssl reuseport; ssl_certificate %[3]s; ssl_certificate_key %[4]s;
    ssl_protocols TLSv1.2 TLSv1.3;
    location / { return 404 "no such path\n"; }
  }
}
`

func startNginx(o options, dir string, c *certificate) (terminator, error) {
	program, err := exec.LookPath("nginx")
	if err != nil {
		if program, err = exec.LookPath("/usr/sbin/nginx"); err != nil { // not in every PATH
			return terminator{}, fmt.Errorf("nginx: %w; apt-get install nginx-light", errLeftOut)
		}
	}
	addresses, err := freeAddresses(1)
	if err != nil {
		return terminator{}, err
	}
	config := filepath.Join(dir, "nginx.conf")
	text := fmt.Sprintf(nginxConfig, dir, addresses[0], c.cert, c.key)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return terminator{}, err
	}
	cmd := command(o, 0, program, "-p", dir, "-c", config)
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		return terminator{}, err
	}
	t := terminator{
		name: "nginx", base: "https://" + addresses[0], stop: func() { end(cmd) },
		usage: func() (usage, error) { return peerUsage(cmd.Process.Pid) },
	}
	for until := time.Now().Add(nginxReady); ; time.Sleep(10 * time.Millisecond) {
		conn, err := net.Dial("tcp", addresses[0])
		if err == nil {
			return t, conn.Close()
		}
		if time.Now().After(until) {
			t.stop()
			return terminator{}, fmt.Errorf("nginx does not listen: %w", err)
		}
	}
}
