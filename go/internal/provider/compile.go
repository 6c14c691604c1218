package provider

import (
	"crypto"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/sha512"
	"errors"
	"fmt"
	"hash"
	"slices"
	"strings"
	"time"
)

// Options adapt a scheme to one source.
type Options struct {
	// Tolerance replaces the scheme's own if it is not nil; below zero no time is judged.
	Tolerance *time.Duration
	// IDFrom says where the id of an event comes from; the zero value is the provider's own.
	IDFrom IDFrom
	// Components must be covered by a message signature (RFC 9421), next to the scheme's own.
	Components []string
	// Learn answers the handshakes in which the sender hands a secret over; without it they are
	// ordinary requests. It also makes do without any secret, since one may come.
	Learn bool
	// Keys knows the keys that senders publish; without one they are never here.
	Keys Keys
	// AllowLegacy judges the variants that the scheme calls legacy too.
	AllowLegacy bool
	// KeepUnusable takes secrets that can never match, none at all, or a tolerance where no time is
	// signed, and makes no error of it. For looking into a request by hand; nothing passes more
	// easily.
	KeepUnusable bool
}

// program is the compiled scheme. It does not change and is shared by the clones of a Verifier.
type program struct {
	names      []string // header names in lower case, one for each slot
	variants   []variant
	keys       []key
	keysOf     [][2]int // for each variant, the range of its keys
	roles      []roleSecret
	id         []place
	kinds      []place
	handshakes []handshakeRule
	unsigned   bool // some handshake rule runs before the proof
	signed     bool // some handshake rule runs after the proof
	hashBody   bool
	batch      *batch // set if a body is named by the items in it
	published  Keys
	logins     []login
	itemsMax   int
	partsMax   int
}

type roleSecret struct {
	name  string
	value []byte
	valid window
}

// login is a secret with which published keys are asked for.
type login struct {
	secret Secret
	valid  window
}

type variant struct {
	*Variant
	signature place
	numbered  string // the family's prefix in lower case
	items     []string
	parts     []part
	time      place
	timed     bool
	tolerance time.Duration // below zero: not judged
	future    time.Duration
	timeless  bool // not even the times in a token are judged
	keyID     place
	byID      bool    // only the keys with the id that the request names count
	allows    *Remote // set if that id is a URL, which must be one of these
	bodyHash  place
	batch     *batch
	require   []matchRule
	// components must be covered by a message signature.
	components []string
	id         []place
	noProof    string
	badForm    string
}

type part struct {
	kind          PartKind
	literal       []byte // of PartSecret the role
	from          place
	optional      bool
	before, after []byte
	list          List
	must          string // a field that a PartHeaders has to have
}

// place is a compiled source, with the words for our log.
type place struct {
	kind    SourceKind
	slot    int
	pointer pointer
	name    string
	// unique says that an object that has a key of pointer twice has no value there: nobody else
	// signed the body as a whole, and others may take the second.
	unique bool

	missing, twice, blank string
}

// Verifier judges the requests of one source. It belongs to one goroutine.
type Verifier struct {
	program  *program
	slots    []slot
	items    []slot
	keys     []keyState
	parts    [][]byte
	message  []byte
	short    [feedBytes]byte           // of feed
	hashes   map[crypto.Hash]hash.Hash // for public keys, made when they are first needed
	digested crypto.Hash               // the one whose result of the signed text is in sum
	sum      [sha512.Size]byte
	checks   uint // how many proofs were computed: no reason to refuse may cost less than another
	token    webToken
	remote   remoteKey
	item     Request // with Each
	listed   []byte  // of a PartHeaders
	crcText  [10]byte
	hashText [2 * sha256.Size]byte
	decoded  [signatureTextMax]byte
	idText   [2 * sha256.Size]byte
}

type slot struct {
	value []byte
	count int
}

// keyState is the part of a key that changes while it is used.
type keyState struct {
	*key
	mac   hash.Hash
	sum   [sha512.Size]byte
	size  int
	fresh bool
}

// Compile checks the scheme and the secrets and makes a Verifier of them. A secret that fits no
// proof of the scheme is an error that names its index, as is a scheme left without any.
func Compile(s *Scheme, secrets []Secret, o Options) (*Verifier, error) {
	if err := s.Check(); err != nil {
		return nil, err
	}
	if o.Tolerance != nil && *o.Tolerance >= 0 && !s.timed() && !o.KeepUnusable {
		return nil, errors.New("a tolerance is set, but this sender signs no time")
	}
	b := builder{program: &program{published: o.Keys}}
	for i := range s.AnyOf {
		if !s.AnyOf[i].Legacy || o.AllowLegacy {
			b.variant(s, &s.AnyOf[i], o)
		}
	}
	if len(b.variants) == 0 {
		return nil, errors.New("the scheme is legacy and allow_legacy is not set")
	}
	b.handshakes(s.Handshakes, o.Learn)
	b.identity(s, o.IDFrom)
	err := b.secrets(s, secrets, o.KeepUnusable)
	if err != nil && !(err == ErrNoSecret && o.Learn && len(s.Learns()) > 0) {
		return nil, err
	}
	return newVerifier(b.program), nil
}

// Learns are the roles of the secrets that the sender may hand over in a handshake.
func (s *Scheme) Learns() []string {
	var roles []string
	for _, rule := range s.Handshakes {
		if rule.Store != nil && !slices.Contains(roles, rule.Store.Role) {
			roles = append(roles, rule.Store.Role)
		}
	}
	return roles
}

func (s *Scheme) timed() bool {
	for i := range s.AnyOf {
		if s.AnyOf[i].Timestamp.From.Kind != SourceNone || s.AnyOf[i].MaxAge > 0 {
			return true
		}
	}
	return false
}

// Clone makes a Verifier for another goroutine.
func (v *Verifier) Clone() *Verifier { return newVerifier(v.program) }

// Asymmetric tells whether a request can make this Verifier check a signature with a public key,
// which costs a hundred times what a hash does.
func (v *Verifier) Asymmetric() bool {
	for i, span := range v.program.keysOf {
		for _, k := range v.program.keys[span[0]:span[1]] {
			if kind := v.program.variants[i].Proofs[k.proof].Algorithm.kind(); kind == kindPublic ||
				kind == kindMessage && k.raw == nil {
				return true
			}
		}
		if v.program.variants[i].remote() != nil {
			return true
		}
	}
	return false
}

// remote is where the keys of the variant are published, or nil.
func (v *Variant) remote() *Remote {
	for i := range v.Proofs {
		if v.Proofs[i].Key.Remote != nil {
			return v.Proofs[i].Key.Remote
		}
	}
	return nil
}

func newVerifier(p *program) *Verifier {
	v := &Verifier{
		program: p,
		slots:   make([]slot, len(p.names)),
		items:   make([]slot, p.itemsMax),
		keys:    make([]keyState, len(p.keys)),
		parts:   make([][]byte, 0, p.partsMax),
		hashes:  map[crypto.Hash]hash.Hash{},
	}
	for i := range p.keys {
		k := &v.keys[i]
		k.key = &p.keys[i]
		if k.raw == nil {
			continue
		}
		if p.algorithm(i) == KeyedSHA256 {
			k.mac = &prefixHash{Hash: sha256.New(), key: k.raw}
			continue
		}
		k.mac = hmac.New(p.algorithm(i).hash(), k.raw)
		// The first Reset after use keeps the state of the keyed pads, so it happens here.
		k.mac.Reset()
		k.mac.Sum(k.sum[:0])
		k.mac.Reset()
	}
	return v
}

func (p *program) algorithm(key int) Algorithm {
	for i, span := range p.keysOf {
		if key >= span[0] && key < span[1] {
			if message := p.keys[key].message; message != nil {
				return message.proof.Algorithm
			}
			return p.variants[i].Proofs[p.keys[key].proof].Algorithm
		}
	}
	return None
}

// prefixHash is the plain hash of key and text.
type prefixHash struct {
	hash.Hash
	key []byte
}

func (h *prefixHash) Reset() {
	h.Hash.Reset()
	h.Write(h.key)
}

type builder struct{ *program }

var errUnused = errors.New("is used by nothing")

func (b *builder) place(s Source, v *variant) place {
	p := place{kind: s.Kind, name: s.Name}
	p.missing, p.twice, p.blank = s.String()+" is missing", s.String()+" comes twice",
		s.String()+" is blank"
	switch s.Kind {
	case SourceHeader:
		p.slot = register(&b.names, strings.ToLower(s.Name))
	case SourceItem:
		p.slot = register(&v.items, s.Name)
		b.itemsMax = max(b.itemsMax, len(v.items))
	case SourceJSON:
		// Check has parsed the same text.
		p.pointer, _ = parsePointer(s.Name)
		p.unique = v != nil && (v.UnsignedBody || v.Each != EachNone)
	case SourceClaim, SourceJOSE:
		p.pointer = claim(s.Name)
	}
	return p
}

// register is the position of name in list, which gets it if it is new.
func register(list *[]string, name string) int {
	for i, have := range *list {
		if have == name {
			return i
		}
	}
	*list = append(*list, name)
	return len(*list) - 1
}

func (b *builder) variant(s *Scheme, data *Variant, o Options) {
	if data.JWS != nil {
		// A token has forms of its own (RFC 7515, section 7.1; RFC 7518, section 3.4).
		token := *data
		token.Proofs = slices.Clone(data.Proofs)
		token.Proofs[0].Encoding, token.Proofs[0].Raw = Base64URLRaw, true
		data = &token
	}
	v := variant{Variant: data, tolerance: max(data.Timestamp.Tolerance, data.MaxAge)}
	v.components = slices.Concat(data.Components, o.Components)
	if v.tolerance == 0 {
		v.tolerance = -1
	}
	if v.future = v.tolerance; data.Timestamp.Future > 0 {
		v.future = data.Timestamp.Future
	}
	if o.Tolerance != nil {
		v.tolerance, v.future = *o.Tolerance, *o.Tolerance
		v.timeless = *o.Tolerance < 0
	}
	if data.Each != EachNone {
		v.batch = s.Batch.compile()
	}
	v.signature = b.place(data.Signature, &v)
	v.numbered = strings.ToLower(data.Signature.Name)
	v.noProof = "no configured secret fits " + data.Signature.String()
	v.badForm = data.Signature.String() + " has not the form of a signature"
	if v.timed = data.Timestamp.From.Kind != SourceNone; v.timed {
		v.time = b.place(data.Timestamp.From, &v)
	}
	if data.KeyID.Kind != SourceNone {
		v.keyID = b.place(data.KeyID, &v)
	}
	if remote := data.remote(); remote != nil && remote.URLFrom.Kind != SourceNone {
		v.keyID, v.allows = b.place(remote.URLFrom, &v), remote
	}
	v.byID = v.keyID.kind != SourceNone || data.Items.KeyIDs
	if data.BodyHash.Kind != SourceNone && data.BodyHash.Kind != SourceQuery {
		v.bodyHash = b.place(data.BodyHash, &v)
	}
	for _, p := range data.Content {
		v.parts = append(v.parts, b.part(&p, &v))
	}
	for _, match := range data.Require {
		v.require = append(v.require, matchRule{match, b.place(match.From, &v)})
	}
	if o.IDFrom.kind == idProvider {
		for _, source := range data.ID {
			v.id = append(v.id, b.place(source, &v))
		}
	}
	b.partsMax = max(b.partsMax, 3*len(v.parts)) // an optional one is three
	b.variants = append(b.variants, v)
}

func (b *builder) part(p *Part, v *variant) part {
	compiled := part{
		kind: p.Kind, literal: []byte(p.Literal), optional: p.Optional,
		before: []byte(p.Before), after: []byte(p.After), list: p.List,
	}
	switch p.Kind {
	case PartSource, PartHeaders:
		compiled.from = b.place(p.Source, v)
	case PartSecret:
		compiled.literal = []byte(p.Role)
		if p.Source.Kind != SourceNone {
			compiled.from = b.place(p.Source, v)
		}
	}
	if from := v.Timestamp.From; p.Kind == PartHeaders && from.Kind == SourceHeader {
		compiled.must = strings.ToLower(from.Name)
	}
	return compiled
}

func (b *builder) handshakes(rules []Handshake, learn bool) {
	for i := range rules {
		rule := handshakeRule{Handshake: &rules[i]}
		if rule.Store != nil {
			if !learn {
				continue
			}
			rule.store = b.place(rule.Store.From, nil)
		}
		for _, field := range rule.Headers {
			rule.headers = append(rule.headers, b.place(field.Value.From, nil))
		}
		for _, match := range rule.Match {
			rule.match = append(rule.match, matchRule{match, b.place(match.From, nil)})
		}
		for _, p := range rule.Body {
			rule.body = append(rule.body, b.place(p.From, nil))
		}
		b.signed = b.signed || rule.Signed
		b.unsigned = b.unsigned || !rule.Signed
		b.program.handshakes = append(b.program.handshakes, rule)
	}
}

func (b *builder) secrets(s *Scheme, secrets []Secret, keepUnusable bool) error {
	roles := map[string]bool{}
	signed, needed := s.signedRoles()
	for _, rule := range s.Handshakes {
		for _, match := range rule.Match {
			roles[match.Secret] = match.Secret != ""
		}
	}
	named := func(secret Secret) bool { return roles[secret.Role] }
	if !slices.ContainsFunc(secrets, named) {
		b.anyRole(roles, secrets)
	}
	for _, role := range signed {
		roles[role] = true
	}
	fits := make([]error, len(secrets))
	for i, secret := range secrets {
		fits[i] = errUnused
		if roles[secret.Role] {
			if fits[i] = nil; secret.Value == "" {
				fits[i] = errors.New("is empty")
			} else {
				fits[i] = b.role(secret.Role, secret)
			}
		}
	}
	for i := range b.variants {
		first := len(b.keys)
		for j := range secrets {
			if !roles[secrets[j].Role] {
				fits[j] = b.keysFor(&b.variants[i], j, secrets[j], fits[j])
			}
		}
		b.keysOf = append(b.keysOf, [2]int{first, len(b.keys)})
	}
	if keepUnusable || s.Unsigned() {
		return nil
	}
	for i, err := range fits {
		if err != nil {
			return &SecretError{Index: i, Reason: err.Error()}
		}
	}
	for _, role := range needed {
		if !slices.ContainsFunc(secrets, func(s Secret) bool { return s.Role == role }) {
			return fmt.Errorf("the sender signs a value that it does not send: "+
				"configure it as a secret with the role %s", role)
		}
	}
	if len(b.keys) == 0 && !b.keyless() {
		return ErrNoSecret
	}
	return nil
}

// keyless tells whether requests may pass though no secret makes a key.
func (b *builder) keyless() bool {
	return slices.ContainsFunc(b.variants, func(v variant) bool {
		remote := v.remote()
		return v.Proofs[0].Algorithm.keyless() ||
			remote != nil && b.published != nil && (len(remote.Post) == 0 || len(b.logins) > 0)
	})
}

// signedRoles are the roles of the secrets that are a part of the signed text, and needed those
// without which there is none.
func (s *Scheme) signedRoles() (signed, needed []string) {
	for i := range s.AnyOf {
		for _, part := range s.AnyOf[i].Content {
			if part.Kind != PartSecret {
				continue
			}
			register(&signed, part.Role)
			if part.Source.Kind == SourceNone {
				register(&needed, part.Role)
			}
		}
	}
	return signed, needed
}

// anyRole lets every secret play a role that none was given: a source with a single secret uses it
// for the handshake too.
func (b *builder) anyRole(roles map[string]bool, secrets []Secret) {
	for name, used := range roles {
		for _, secret := range secrets {
			if used && secret.Value != "" {
				_ = b.role(name, secret) // As a key of a proof it meets the same fault.
			}
		}
	}
}

func (b *builder) role(name string, secret Secret) error {
	valid, err := secret.window()
	if err == nil {
		b.roles = append(b.roles, roleSecret{name, []byte(secret.Value), valid})
	}
	return err
}

func (b *builder) login(secret Secret) error {
	valid, err := secret.window()
	if err == nil {
		b.logins = append(b.logins, login{secret, valid})
	}
	return err
}

// keysFor adds the keys that one secret makes in one variant. The result is nil once the secret
// fits anywhere, and otherwise every reason why it does not.
func (b *builder) keysFor(v *variant, index int, secret Secret, before error) error {
	fit := before == nil
	var reasons []string
	if !fit && before != errUnused {
		reasons = append(reasons, before.Error())
	}
	for i := range v.Proofs {
		p := &v.Proofs[i]
		if p.Algorithm.keyless() {
			continue
		}
		if p.Key.Remote != nil && len(p.Key.Remote.Post) > 0 && secret.User != "" {
			fit = b.login(secret) == nil
			continue
		}
		k, err := newKey(p, secret)
		if err == nil && len(k.id) == 0 && v.byID {
			err = errors.New("has no key_id, by which the sender names it")
		}
		if err == nil {
			k.valid, err = secret.window()
		}
		if err == nil {
			k.secret, k.proof = index, i
			b.keys = append(b.keys, k)
			fit = true
		} else if !slices.Contains(reasons, err.Error()) {
			reasons = append(reasons, err.Error())
		}
	}
	if fit {
		return nil
	}
	return errors.New(strings.Join(reasons, "; "))
}
