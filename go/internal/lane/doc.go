// Package lane is the control plane's side of the shared memory: the consumer of a lane's requests,
// the producer of its replies, the control page that it owns and the counters that it reads.
//
// It moves bytes and cursors. It judges no frame, writes no journal and starts no goroutine.
//
// The protocol, in the words of a lane's header page: consume ≤ verified ≤ commit ≤ consume +
// capacity. Bytes past commit do not exist; below verified a verdict is final; a word has one
// writer. The data plane is a source of bugs, not a friend: each foreign word is loaded once and
// checked, and a wrong one is ErrCorrupt, on which the caller retires the lane. A file that is cut
// under its mapping would end this process: what touches a lane's memory runs under Guard.
//
// A crash of this process leaves every word where it was: a new one attaches, goes on from consume
// and verified, and rings once whatever the ticket says. A crash of the data plane gives the file's
// lock back, which ProducerGone sees.
package lane
