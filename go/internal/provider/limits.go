package provider

// Named bounds of the judge. Each keeps a hostile request from costing more than an honest one.
const (
	// candidatesMax is how many signatures one field may offer. Senders that rotate keys offer two.
	candidatesMax = 16
	// numberedMax is the highest suffix of a numbered header family, and so its candidates.
	numberedMax = 100
	// signatureTextMax is the longest text of one encoded signature or token.
	signatureTextMax = 1024
	// pointerTextMax and pointerDepthMax bound a JSON pointer, which an operator writes.
	pointerTextMax  = 256
	pointerDepthMax = 16
	// nestingMax bounds the depth of a JSON value that a scan goes through.
	nestingMax = 512
	// idMax is the longest id or type of an event; a longer one is taken as none.
	idMax = 256
	// echoMax bounds what a handshake may make us repeat.
	echoMax = 1024
	// learnedMax is the longest secret that a handshake may hand over.
	learnedMax = 512
	// handshakeBodyMax is the longest body in which a handshake is looked for.
	handshakeBodyMax = 16 << 10
	// tokenMax is the longest JSON Web Signature.
	tokenMax = 8 << 10
	// keyURLMax is the longest URL of a key that a request may name, keyHostsMax how many hosts a
	// scheme may list for them.
	keyURLMax   = 512
	keyHostsMax = 16
	// rsaBitsMin and rsaBitsMax bound the size of RSA keys: a smaller one can be broken, a larger one
	// costs more to check than a request is worth.
	rsaBitsMin = 2048
	rsaBitsMax = 8192
	// batchItemsMax is how many events one body may hold.
	batchItemsMax = 4096
	// componentsMax is how many components a message signature may cover.
	componentsMax = 64
	// formBodyMax is the longest body whose parameters are signed one by one.
	formBodyMax = 64 << 10
	// handshakesMax, matchesMax, idPlacesMax and retryHeadersMax bound what a data plane looks for in
	// every request.
	handshakesMax   = 16
	matchesMax      = 8
	idPlacesMax     = 8
	retryHeadersMax = 8
	// clientNamesMax is how many names of client certificates a source may list.
	clientNamesMax = 256
	// feedBytes is what feed gathers before it hashes, the blocks of the largest hash included.
	feedBytes = 512
	// messageKeep is the scratch memory that a Verifier keeps between requests.
	messageKeep = 64 << 10
)
