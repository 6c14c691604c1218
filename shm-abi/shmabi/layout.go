// Code generated from layout.abi by shm-abi/gen. DO NOT EDIT.

package shmabi

import (
	"encoding/binary"
	"sync/atomic"
	"unsafe"
)

// LayoutHash names this layout; attach refuses a page with another one.
const LayoutHash uint64 = 0xf071e4bf445b78f3

// Sizes, magic numbers and bounds.
const (
	LaneMagic      = 3550329923610823763 // "SLCLANE1"
	ControlMagic   = 3552304727948284672 // "\0SLCTRL1"
	CountersMagic  = 3554552134010426112 // "\0SLCUNT1"
	PageSize       = 4096
	LineSize       = 64
	FrameHeader    = 128   // the D line and the C line
	HeaderBlockMax = 65536 // header index offsets are u16
	ReplyInlineMax = 65536 // head and body of one reply
	WorkersMax     = 64
	SourcesMax     = 1024
	LatencyBuckets = 24
	HoldBuckets    = 16
	Classes        = 8
	RefusedEntries = 1024 // of a worker's ring of refusals
	RefusedIDBytes = 96
)

// Kind: What a frame is. `event` is the only kind that a data plane writes.
type Kind uint16

// The values of Kind.
const (
	KindEvent    Kind = 1
	KindOutcomes Kind = 2
	KindConfig   Kind = 3
	KindLaneEnd  Kind = 4
	KindRescue   Kind = 5 // a whole frame that moved to a younger segment and keeps its name
)

// State: The control plane's verdict on a frame, in its C line.
type State uint16

// The values of State.
const (
	StateNone      State = 0
	StateVerified  State = 1
	StateRefused   State = 2
	StateDuplicate State = 3
	StateAnswered  State = 4
)

// Ack: What a 2xx waits for.
type Ack uint8

// The values of Ack.
const (
	AckRing      Ack = 1
	AckDurable   Ack = 2
	AckDelivered Ack = 3
)

// FrameFlag: Bits of DLine.flags.
type FrameFlag uint16

// The values of FrameFlag.
const (
	FrameFlagTLS    FrameFlag = 1
	FrameFlagHttp10 FrameFlag = 2
)

// VerdictFlag: Bits of CLine.flags.
type VerdictFlag uint8

// The values of VerdictFlag.
const (
	VerdictFlagUnverified VerdictFlag = 1 // taken without a proof: `provider: none` or `enforce: false`
	VerdictFlagDegraded   VerdictFlag = 2 // answered 202: a breaker of its destinations was not closed
)

// Shed: Why a request was turned away that its sender may send again.
type Shed uint16

// The values of Shed.
const (
	ShedHold     Shed = 1 // its bound on waiting was spent
	ShedHeldFull Shed = 2 // the queue was full, or too much memory waits
	ShedLane     Shed = 3 // the lane was over 90 % full
	ShedRate     Shed = 4 // over its source's own rate
	ShedJournal  Shed = 5 // the journal is full or cannot be written
	ShedStopping Shed = 6
	ShedBudget   Shed = 7 // no reply inside the sender's budget
	ShedClass    Shed = 8 // pushed out by one of a higher class
)

// Reply: What a reply entry carries.
type Reply uint16

// The values of Reply.
const (
	ReplyAccepted  Reply = 1 // 200 {"status":"accepted","id":…}
	ReplyDuplicate Reply = 2 // 200 {"status":"duplicate","id":…}
	ReplyQueued    Reply = 3 // 202 with the degraded headers
	ReplyRefused   Reply = 4 // a canned answer for `code`
	ReplyInline    Reply = 5 // head lines and body bytes follow
)

// DLineSize is the size of a DLine in bytes.
const DLineSize = 64

// Where the fields of a DLine are.
const (
	DLineLengthOffset        = 0
	DLineKindOffset          = 4
	DLineFlagsOffset         = 6
	DLineCrc32cOffset        = 8
	DLineSourceIDOffset      = 12
	DLineConfigVersionOffset = 16
	DLineSeqOffset           = 20
	DLineReceivedNSOffset    = 24
	DLineAdmittedNSOffset    = 32
	DLineTokenOffset         = 40
	DLinePositionOffset      = 48
	DLineUntilNSOffset       = 56
)

type shapeOfDLine struct {
	length        uint32
	kind          uint16
	flags         uint16
	crc32c        uint32
	sourceID      uint32
	configVersion uint32
	seq           uint32
	receivedNS    uint64
	admittedNS    uint64
	token         uint64
	position      uint64
	untilNS       uint64
}

var (
	_ [64]byte = [unsafe.Sizeof(shapeOfDLine{})]byte{}
	_ [0]byte  = [unsafe.Offsetof(shapeOfDLine{}.length)]byte{}
	_ [4]byte  = [unsafe.Offsetof(shapeOfDLine{}.kind)]byte{}
	_ [6]byte  = [unsafe.Offsetof(shapeOfDLine{}.flags)]byte{}
	_ [8]byte  = [unsafe.Offsetof(shapeOfDLine{}.crc32c)]byte{}
	_ [12]byte = [unsafe.Offsetof(shapeOfDLine{}.sourceID)]byte{}
	_ [16]byte = [unsafe.Offsetof(shapeOfDLine{}.configVersion)]byte{}
	_ [20]byte = [unsafe.Offsetof(shapeOfDLine{}.seq)]byte{}
	_ [24]byte = [unsafe.Offsetof(shapeOfDLine{}.receivedNS)]byte{}
	_ [32]byte = [unsafe.Offsetof(shapeOfDLine{}.admittedNS)]byte{}
	_ [40]byte = [unsafe.Offsetof(shapeOfDLine{}.token)]byte{}
	_ [48]byte = [unsafe.Offsetof(shapeOfDLine{}.position)]byte{}
	_ [56]byte = [unsafe.Offsetof(shapeOfDLine{}.untilNS)]byte{}
)

// DLine: One frame's first line. The data plane writes it before `commit`; never again afterwards.
// A view of DLineSize bytes; it owns nothing.
type DLine []byte

// Length: whole frame, both lines included, a multiple of 64
func (l DLine) Length() uint32 { return binary.LittleEndian.Uint32(l[0:4]) }

// Kind is the field of that name.
func (l DLine) Kind() uint16 { return binary.LittleEndian.Uint16(l[4:6]) }

// Flags is the field of that name.
func (l DLine) Flags() uint16 { return binary.LittleEndian.Uint16(l[6:8]) }

// Crc32c: over [128, length), padding included (zeroed)
func (l DLine) Crc32c() uint32 { return binary.LittleEndian.Uint32(l[8:12]) }

// SourceID: assigned once, never reused
func (l DLine) SourceID() uint32 { return binary.LittleEndian.Uint32(l[12:16]) }

// ConfigVersion is the field of that name.
func (l DLine) ConfigVersion() uint32 { return binary.LittleEndian.Uint32(l[16:20]) }

// Seq: request number on its connection
func (l DLine) Seq() uint32 { return binary.LittleEndian.Uint32(l[20:24]) }

// ReceivedNS: wall clock, ns since 1970: the request was whole
func (l DLine) ReceivedNS() uint64 { return binary.LittleEndian.Uint64(l[24:32]) }

// AdmittedNS: boot clock, ns: the slot was taken
func (l DLine) AdmittedNS() uint64 { return binary.LittleEndian.Uint64(l[32:40]) }

// Token: seat (20 bits) | connection number of this worker (44 bits)
func (l DLine) Token() uint64 { return binary.LittleEndian.Uint64(l[40:48]) }

// Position: where in its lane this frame begins
func (l DLine) Position() uint64 { return binary.LittleEndian.Uint64(l[48:56]) }

// UntilNS: boot clock, ns: end of the sender's budget, 503 from then; 0: not known
func (l DLine) UntilNS() uint64 { return binary.LittleEndian.Uint64(l[56:64]) }

// CLineSize is the size of a CLine in bytes.
const CLineSize = 64

// Where the fields of a CLine are.
const (
	CLineStateOffset        = 0
	CLineReplyCodeOffset    = 2
	CLineAckOffset          = 4
	CLineFlagsOffset        = 5
	CLineSecretIndexOffset  = 6
	CLineEventIDOffset      = 8
	CLineDedupKeyOffset     = 24
	CLineDedupUntilNSOffset = 40
	CLineOrderKeyOffset     = 48
	CLineRouteVersionOffset = 56
	CLineReservedOffset     = 60
)

type shapeOfCLine struct {
	state        uint16
	replyCode    uint16
	ack          uint8
	flags        uint8
	secretIndex  uint16
	eventID      [16]byte
	dedupKey     [16]byte
	dedupUntilNS uint64
	orderKey     uint64
	routeVersion uint32
	reserved     uint32
}

var (
	_ [64]byte = [unsafe.Sizeof(shapeOfCLine{})]byte{}
	_ [0]byte  = [unsafe.Offsetof(shapeOfCLine{}.state)]byte{}
	_ [2]byte  = [unsafe.Offsetof(shapeOfCLine{}.replyCode)]byte{}
	_ [4]byte  = [unsafe.Offsetof(shapeOfCLine{}.ack)]byte{}
	_ [5]byte  = [unsafe.Offsetof(shapeOfCLine{}.flags)]byte{}
	_ [6]byte  = [unsafe.Offsetof(shapeOfCLine{}.secretIndex)]byte{}
	_ [8]byte  = [unsafe.Offsetof(shapeOfCLine{}.eventID)]byte{}
	_ [24]byte = [unsafe.Offsetof(shapeOfCLine{}.dedupKey)]byte{}
	_ [40]byte = [unsafe.Offsetof(shapeOfCLine{}.dedupUntilNS)]byte{}
	_ [48]byte = [unsafe.Offsetof(shapeOfCLine{}.orderKey)]byte{}
	_ [56]byte = [unsafe.Offsetof(shapeOfCLine{}.routeVersion)]byte{}
	_ [60]byte = [unsafe.Offsetof(shapeOfCLine{}.reserved)]byte{}
)

// CLine: One frame's second line. The control plane writes it between `commit` and `verified`; above
// `verified` it is garbage and is never believed.
// A view of CLineSize bytes; it owns nothing.
type CLine []byte

// State is the field of that name.
func (l CLine) State() uint16 { return binary.LittleEndian.Uint16(l[0:2]) }

// SetState stores the field.
func (l CLine) SetState(v uint16) { binary.LittleEndian.PutUint16(l[0:2], v) }

// ReplyCode: HTTP status
func (l CLine) ReplyCode() uint16 { return binary.LittleEndian.Uint16(l[2:4]) }

// SetReplyCode stores the field.
func (l CLine) SetReplyCode(v uint16) { binary.LittleEndian.PutUint16(l[2:4], v) }

// Ack is the field of that name.
func (l CLine) Ack() uint8 { return l[4] }

// SetAck stores the field.
func (l CLine) SetAck(v uint8) { l[4] = v }

// Flags is the field of that name.
func (l CLine) Flags() uint8 { return l[5] }

// SetFlags stores the field.
func (l CLine) SetFlags(v uint8) { l[5] = v }

// SecretIndex: which configured secret matched
func (l CLine) SecretIndex() uint16 { return binary.LittleEndian.Uint16(l[6:8]) }

// SetSecretIndex stores the field.
func (l CLine) SetSecretIndex(v uint16) { binary.LittleEndian.PutUint16(l[6:8], v) }

// EventID is the field of that name.
func (l CLine) EventID() [16]byte { return [16]byte(l[8:24]) }

// SetEventID stores the field.
func (l CLine) SetEventID(v [16]byte) { copy(l[8:24], v[:]) }

// DedupKey: all zero: none
func (l CLine) DedupKey() [16]byte { return [16]byte(l[24:40]) }

// SetDedupKey stores the field.
func (l CLine) SetDedupKey(v [16]byte) { copy(l[24:40], v[:]) }

// DedupUntilNS: wall clock end of the window
func (l CLine) DedupUntilNS() uint64 { return binary.LittleEndian.Uint64(l[40:48]) }

// SetDedupUntilNS stores the field.
func (l CLine) SetDedupUntilNS(v uint64) { binary.LittleEndian.PutUint64(l[40:48], v) }

// OrderKey: 0: none
func (l CLine) OrderKey() uint64 { return binary.LittleEndian.Uint64(l[48:56]) }

// SetOrderKey stores the field.
func (l CLine) SetOrderKey(v uint64) { binary.LittleEndian.PutUint64(l[48:56], v) }

// RouteVersion is the field of that name.
func (l CLine) RouteVersion() uint32 { return binary.LittleEndian.Uint32(l[56:60]) }

// SetRouteVersion stores the field.
func (l CLine) SetRouteVersion(v uint32) { binary.LittleEndian.PutUint32(l[56:60], v) }

// PayloadHeadSize is the size of a PayloadHead in bytes.
const PayloadHeadSize = 64

// Where the fields of a PayloadHead are.
const (
	PayloadHeadTargetLengthOffset  = 0
	PayloadHeadHeadersLengthOffset = 4
	PayloadHeadHeadersCountOffset  = 8
	PayloadHeadBodyOffsetOffset    = 12
	PayloadHeadBodyLengthOffset    = 16
	PayloadHeadPeerPortOffset      = 20
	PayloadHeadMethodLengthOffset  = 22
	PayloadHeadClientWordsOffset   = 23
	PayloadHeadMethodOffset        = 24
	PayloadHeadPeerIPOffset        = 48
)

type shapeOfPayloadHead struct {
	targetLength  uint32
	headersLength uint32
	headersCount  uint32
	bodyOffset    uint32
	bodyLength    uint32
	peerPort      uint16
	methodLength  uint8
	clientWords   uint8
	method        [24]byte
	peerIP        [16]byte
}

var (
	_ [64]byte = [unsafe.Sizeof(shapeOfPayloadHead{})]byte{}
	_ [0]byte  = [unsafe.Offsetof(shapeOfPayloadHead{}.targetLength)]byte{}
	_ [4]byte  = [unsafe.Offsetof(shapeOfPayloadHead{}.headersLength)]byte{}
	_ [8]byte  = [unsafe.Offsetof(shapeOfPayloadHead{}.headersCount)]byte{}
	_ [12]byte = [unsafe.Offsetof(shapeOfPayloadHead{}.bodyOffset)]byte{}
	_ [16]byte = [unsafe.Offsetof(shapeOfPayloadHead{}.bodyLength)]byte{}
	_ [20]byte = [unsafe.Offsetof(shapeOfPayloadHead{}.peerPort)]byte{}
	_ [22]byte = [unsafe.Offsetof(shapeOfPayloadHead{}.methodLength)]byte{}
	_ [23]byte = [unsafe.Offsetof(shapeOfPayloadHead{}.clientWords)]byte{}
	_ [24]byte = [unsafe.Offsetof(shapeOfPayloadHead{}.method)]byte{}
	_ [48]byte = [unsafe.Offsetof(shapeOfPayloadHead{}.peerIP)]byte{}
)

// PayloadHead: The first line of an event's payload, at 128. After it, without gaps: target, client names (padded
// with zeroes to their words), header block, header index (8 bytes an entry: name offset, name length, value offset, value length, u16 each, from the
// start of the header block; padded to start on 8), then on the next 64-byte line the body.
// A view of PayloadHeadSize bytes; it owns nothing.
type PayloadHead []byte

// TargetLength is the field of that name.
func (l PayloadHead) TargetLength() uint32 { return binary.LittleEndian.Uint32(l[0:4]) }

// HeadersLength is the field of that name.
func (l PayloadHead) HeadersLength() uint32 { return binary.LittleEndian.Uint32(l[4:8]) }

// HeadersCount is the field of that name.
func (l PayloadHead) HeadersCount() uint32 { return binary.LittleEndian.Uint32(l[8:12]) }

// BodyOffset: from the frame's start; a multiple of 64
func (l PayloadHead) BodyOffset() uint32 { return binary.LittleEndian.Uint32(l[12:16]) }

// BodyLength is the field of that name.
func (l PayloadHead) BodyLength() uint32 { return binary.LittleEndian.Uint32(l[16:20]) }

// PeerPort is the field of that name.
func (l PayloadHead) PeerPort() uint16 { return binary.LittleEndian.Uint16(l[20:22]) }

// MethodLength is the field of that name.
func (l PayloadHead) MethodLength() uint8 { return l[22] }

// ClientWords: client names in words of 8 bytes; 0: no client certificate
func (l PayloadHead) ClientWords() uint8 { return l[23] }

// Method is the field of that name.
func (l PayloadHead) Method() [24]byte { return [24]byte(l[24:48]) }

// PeerIP: IPv4 as ::ffff:a.b.c.d; all zero: a Unix socket
func (l PayloadHead) PeerIP() [16]byte { return [16]byte(l[48:64]) }

// ReplyEntrySize is the size of a ReplyEntry in bytes.
const ReplyEntrySize = 64

// Where the fields of a ReplyEntry are.
const (
	ReplyEntryLengthOffset      = 0
	ReplyEntryKindOffset        = 4
	ReplyEntryCodeOffset        = 6
	ReplyEntryTokenOffset       = 8
	ReplyEntrySeqOffset         = 16
	ReplyEntryFlagsOffset       = 20
	ReplyEntryHeadLengthOffset  = 24
	ReplyEntryBodyLengthOffset  = 28
	ReplyEntryEventIDOffset     = 32
	ReplyEntryPositionOffset    = 48
	ReplyEntryRetryAfterSOffset = 56
	ReplyEntryReservedOffset    = 60
)

type shapeOfReplyEntry struct {
	length      uint32
	kind        uint16
	code        uint16
	token       uint64
	seq         uint32
	flags       uint32
	headLength  uint32
	bodyLength  uint32
	eventID     [16]byte
	position    uint64
	retryAfterS uint32
	reserved    uint32
}

var (
	_ [64]byte = [unsafe.Sizeof(shapeOfReplyEntry{})]byte{}
	_ [0]byte  = [unsafe.Offsetof(shapeOfReplyEntry{}.length)]byte{}
	_ [4]byte  = [unsafe.Offsetof(shapeOfReplyEntry{}.kind)]byte{}
	_ [6]byte  = [unsafe.Offsetof(shapeOfReplyEntry{}.code)]byte{}
	_ [8]byte  = [unsafe.Offsetof(shapeOfReplyEntry{}.token)]byte{}
	_ [16]byte = [unsafe.Offsetof(shapeOfReplyEntry{}.seq)]byte{}
	_ [20]byte = [unsafe.Offsetof(shapeOfReplyEntry{}.flags)]byte{}
	_ [24]byte = [unsafe.Offsetof(shapeOfReplyEntry{}.headLength)]byte{}
	_ [28]byte = [unsafe.Offsetof(shapeOfReplyEntry{}.bodyLength)]byte{}
	_ [32]byte = [unsafe.Offsetof(shapeOfReplyEntry{}.eventID)]byte{}
	_ [48]byte = [unsafe.Offsetof(shapeOfReplyEntry{}.position)]byte{}
	_ [56]byte = [unsafe.Offsetof(shapeOfReplyEntry{}.retryAfterS)]byte{}
	_ [60]byte = [unsafe.Offsetof(shapeOfReplyEntry{}.reserved)]byte{}
)

// ReplyEntry: One reply. Body bytes follow; entries start on 64-byte lines.
// A view of ReplyEntrySize bytes; it owns nothing.
type ReplyEntry []byte

// Length: whole entry, a multiple of 64
func (l ReplyEntry) Length() uint32 { return binary.LittleEndian.Uint32(l[0:4]) }

// SetLength stores the field.
func (l ReplyEntry) SetLength(v uint32) { binary.LittleEndian.PutUint32(l[0:4], v) }

// Kind is the field of that name.
func (l ReplyEntry) Kind() uint16 { return binary.LittleEndian.Uint16(l[4:6]) }

// SetKind stores the field.
func (l ReplyEntry) SetKind(v uint16) { binary.LittleEndian.PutUint16(l[4:6], v) }

// Code: HTTP status
func (l ReplyEntry) Code() uint16 { return binary.LittleEndian.Uint16(l[6:8]) }

// SetCode stores the field.
func (l ReplyEntry) SetCode(v uint16) { binary.LittleEndian.PutUint16(l[6:8], v) }

// Token is the field of that name.
func (l ReplyEntry) Token() uint64 { return binary.LittleEndian.Uint64(l[8:16]) }

// SetToken stores the field.
func (l ReplyEntry) SetToken(v uint64) { binary.LittleEndian.PutUint64(l[8:16], v) }

// Seq is the field of that name.
func (l ReplyEntry) Seq() uint32 { return binary.LittleEndian.Uint32(l[16:20]) }

// SetSeq stores the field.
func (l ReplyEntry) SetSeq(v uint32) { binary.LittleEndian.PutUint32(l[16:20], v) }

// Flags is the field of that name.
func (l ReplyEntry) Flags() uint32 { return binary.LittleEndian.Uint32(l[20:24]) }

// SetFlags stores the field.
func (l ReplyEntry) SetFlags(v uint32) { binary.LittleEndian.PutUint32(l[20:24], v) }

// HeadLength: REPLY_INLINE: header lines, each ended by CRLF
func (l ReplyEntry) HeadLength() uint32 { return binary.LittleEndian.Uint32(l[24:28]) }

// SetHeadLength stores the field.
func (l ReplyEntry) SetHeadLength(v uint32) { binary.LittleEndian.PutUint32(l[24:28], v) }

// BodyLength is the field of that name.
func (l ReplyEntry) BodyLength() uint32 { return binary.LittleEndian.Uint32(l[28:32]) }

// SetBodyLength stores the field.
func (l ReplyEntry) SetBodyLength(v uint32) { binary.LittleEndian.PutUint32(l[28:32], v) }

// EventID is the field of that name.
func (l ReplyEntry) EventID() [16]byte { return [16]byte(l[32:48]) }

// SetEventID stores the field.
func (l ReplyEntry) SetEventID(v [16]byte) { copy(l[32:48], v[:]) }

// Position: the frame that is answered
func (l ReplyEntry) Position() uint64 { return binary.LittleEndian.Uint64(l[48:56]) }

// SetPosition stores the field.
func (l ReplyEntry) SetPosition(v uint64) { binary.LittleEndian.PutUint64(l[48:56], v) }

// RetryAfterS: 0: none
func (l ReplyEntry) RetryAfterS() uint32 { return binary.LittleEndian.Uint32(l[56:60]) }

// SetRetryAfterS stores the field.
func (l ReplyEntry) SetRetryAfterS(v uint32) { binary.LittleEndian.PutUint32(l[56:60], v) }

// LaneHeaderSize is the size of a LaneHeader in bytes.
const LaneHeaderSize = 4096

// Where the fields of a LaneHeader are.
const (
	LaneHeaderMagicOffset           = 0
	LaneHeaderLayoutHashOffset      = 8
	LaneHeaderBootIDOffset          = 16
	LaneHeaderJournalIDOffset       = 32
	LaneHeaderLaneIDOffset          = 48
	LaneHeaderGenerationOffset      = 64
	LaneHeaderPidOffset             = 68
	LaneHeaderWorkerOffset          = 72
	LaneHeaderVersionOffset         = 76
	LaneHeaderRequestCapacityOffset = 80
	LaneHeaderReplyCapacityOffset   = 88
	LaneHeaderCommitOffset          = 128
	LaneHeaderConsumeOffset         = 256
	LaneHeaderVerifiedOffset        = 384
	LaneHeaderReplyCommitOffset     = 512
	LaneHeaderReplyConsumeOffset    = 640
	LaneHeaderDPTicketOffset        = 768
	LaneHeaderCPTicketOffset        = 896
	LaneHeaderClosedOffset          = 1024
	LaneHeaderRetiredOffset         = 1152
)

type shapeOfLaneHeader struct {
	magic           uint64
	layoutHash      uint64
	bootID          [16]byte
	journalID       [16]byte
	laneID          [16]byte
	generation      uint32
	pid             uint32
	worker          uint32
	version         uint32
	requestCapacity uint64
	replyCapacity   uint64
	_               [32]byte
	commit          uint64
	_               [120]byte
	consume         uint64
	_               [120]byte
	verified        uint64
	_               [120]byte
	replyCommit     uint64
	_               [120]byte
	replyConsume    uint64
	_               [120]byte
	dpTicket        uint64
	_               [120]byte
	cpTicket        uint64
	_               [120]byte
	closed          uint64
	_               [120]byte
	retired         uint64
	_               [2936]byte
}

var (
	_ [4096]byte = [unsafe.Sizeof(shapeOfLaneHeader{})]byte{}
	_ [0]byte    = [unsafe.Offsetof(shapeOfLaneHeader{}.magic)]byte{}
	_ [8]byte    = [unsafe.Offsetof(shapeOfLaneHeader{}.layoutHash)]byte{}
	_ [16]byte   = [unsafe.Offsetof(shapeOfLaneHeader{}.bootID)]byte{}
	_ [32]byte   = [unsafe.Offsetof(shapeOfLaneHeader{}.journalID)]byte{}
	_ [48]byte   = [unsafe.Offsetof(shapeOfLaneHeader{}.laneID)]byte{}
	_ [64]byte   = [unsafe.Offsetof(shapeOfLaneHeader{}.generation)]byte{}
	_ [68]byte   = [unsafe.Offsetof(shapeOfLaneHeader{}.pid)]byte{}
	_ [72]byte   = [unsafe.Offsetof(shapeOfLaneHeader{}.worker)]byte{}
	_ [76]byte   = [unsafe.Offsetof(shapeOfLaneHeader{}.version)]byte{}
	_ [80]byte   = [unsafe.Offsetof(shapeOfLaneHeader{}.requestCapacity)]byte{}
	_ [88]byte   = [unsafe.Offsetof(shapeOfLaneHeader{}.replyCapacity)]byte{}
	_ [128]byte  = [unsafe.Offsetof(shapeOfLaneHeader{}.commit)]byte{}
	_ [256]byte  = [unsafe.Offsetof(shapeOfLaneHeader{}.consume)]byte{}
	_ [384]byte  = [unsafe.Offsetof(shapeOfLaneHeader{}.verified)]byte{}
	_ [512]byte  = [unsafe.Offsetof(shapeOfLaneHeader{}.replyCommit)]byte{}
	_ [640]byte  = [unsafe.Offsetof(shapeOfLaneHeader{}.replyConsume)]byte{}
	_ [768]byte  = [unsafe.Offsetof(shapeOfLaneHeader{}.dpTicket)]byte{}
	_ [896]byte  = [unsafe.Offsetof(shapeOfLaneHeader{}.cpTicket)]byte{}
	_ [1024]byte = [unsafe.Offsetof(shapeOfLaneHeader{}.closed)]byte{}
	_ [1152]byte = [unsafe.Offsetof(shapeOfLaneHeader{}.retired)]byte{}
)

// LaneHeader: First page of a lane file; request ring and reply ring follow. Each cursor has two cache lines.
// A view of mapped memory; it owns nothing. Every load is one atomic load.
type LaneHeader struct{ base unsafe.Pointer }

// ViewLaneHeader looks at the first LaneHeaderSize bytes of a mapping, which start on 8.
func ViewLaneHeader(mapped []byte) LaneHeader {
	_ = mapped[4095]
	return LaneHeader{unsafe.Pointer(&mapped[0])}
}

// Magic is the word of that name.
func (p LaneHeader) Magic() uint64 { return atomic.LoadUint64((*uint64)(unsafe.Add(p.base, 0))) }

// LayoutHash is the word of that name.
func (p LaneHeader) LayoutHash() uint64 { return atomic.LoadUint64((*uint64)(unsafe.Add(p.base, 8))) }

// BootID is the word of that name.
func (p LaneHeader) BootID() [16]byte { return *(*[16]byte)(unsafe.Add(p.base, 16)) }

// JournalID is the word of that name.
func (p LaneHeader) JournalID() [16]byte { return *(*[16]byte)(unsafe.Add(p.base, 32)) }

// LaneID is the word of that name.
func (p LaneHeader) LaneID() [16]byte { return *(*[16]byte)(unsafe.Add(p.base, 48)) }

// Generation is the word of that name.
func (p LaneHeader) Generation() uint32 { return atomic.LoadUint32((*uint32)(unsafe.Add(p.base, 64))) }

// Pid is the word of that name.
func (p LaneHeader) Pid() uint32 { return atomic.LoadUint32((*uint32)(unsafe.Add(p.base, 68))) }

// Worker is the word of that name.
func (p LaneHeader) Worker() uint32 { return atomic.LoadUint32((*uint32)(unsafe.Add(p.base, 72))) }

// Version is the word of that name.
func (p LaneHeader) Version() uint32 { return atomic.LoadUint32((*uint32)(unsafe.Add(p.base, 76))) }

// RequestCapacity is the word of that name.
func (p LaneHeader) RequestCapacity() uint64 {
	return atomic.LoadUint64((*uint64)(unsafe.Add(p.base, 80)))
}

// ReplyCapacity is the word of that name.
func (p LaneHeader) ReplyCapacity() uint64 {
	return atomic.LoadUint64((*uint64)(unsafe.Add(p.base, 88)))
}

// Commit is the word of that name.
func (p LaneHeader) Commit() uint64 { return atomic.LoadUint64((*uint64)(unsafe.Add(p.base, 128))) }

// Consume is the word of that name.
func (p LaneHeader) Consume() uint64 { return atomic.LoadUint64((*uint64)(unsafe.Add(p.base, 256))) }

// StoreConsume publishes the word.
func (p LaneHeader) StoreConsume(v uint64) { atomic.StoreUint64((*uint64)(unsafe.Add(p.base, 256)), v) }

// Verified is the word of that name.
func (p LaneHeader) Verified() uint64 { return atomic.LoadUint64((*uint64)(unsafe.Add(p.base, 384))) }

// StoreVerified publishes the word.
func (p LaneHeader) StoreVerified(v uint64) {
	atomic.StoreUint64((*uint64)(unsafe.Add(p.base, 384)), v)
}

// ReplyCommit is the word of that name.
func (p LaneHeader) ReplyCommit() uint64 {
	return atomic.LoadUint64((*uint64)(unsafe.Add(p.base, 512)))
}

// StoreReplyCommit publishes the word.
func (p LaneHeader) StoreReplyCommit(v uint64) {
	atomic.StoreUint64((*uint64)(unsafe.Add(p.base, 512)), v)
}

// ReplyConsume is the word of that name.
func (p LaneHeader) ReplyConsume() uint64 {
	return atomic.LoadUint64((*uint64)(unsafe.Add(p.base, 640)))
}

// DPTicket is the word of that name.
func (p LaneHeader) DPTicket() uint64 { return atomic.LoadUint64((*uint64)(unsafe.Add(p.base, 768))) }

// CPTicket is the word of that name.
func (p LaneHeader) CPTicket() uint64 { return atomic.LoadUint64((*uint64)(unsafe.Add(p.base, 896))) }

// StoreCPTicket publishes the word.
func (p LaneHeader) StoreCPTicket(v uint64) {
	atomic.StoreUint64((*uint64)(unsafe.Add(p.base, 896)), v)
}

// Closed is the word of that name.
func (p LaneHeader) Closed() uint64 { return atomic.LoadUint64((*uint64)(unsafe.Add(p.base, 1024))) }

// Retired is the word of that name.
func (p LaneHeader) Retired() uint64 { return atomic.LoadUint64((*uint64)(unsafe.Add(p.base, 1152))) }

// StoreRetired publishes the word.
func (p LaneHeader) StoreRetired(v uint64) {
	atomic.StoreUint64((*uint64)(unsafe.Add(p.base, 1152)), v)
}

// ControlPageSize is the size of a ControlPage in bytes.
const ControlPageSize = 4096

// Where the fields of a ControlPage are.
const (
	ControlPageMagicOffset            = 0
	ControlPageLayoutHashOffset       = 8
	ControlPageJournalIDOffset        = 16
	ControlPagePolicyVersionOffset    = 64
	ControlPageLimitOffset            = 128
	ControlPageMaxHeldOffset          = 136
	ControlPageHoldBudgetNSOffset     = 144
	ControlPageHoldBoundNSOffset      = 152
	ControlPageGrowingOffset          = 160
	ControlPageServiceTimeNSOffset    = 168
	ControlPageFloorSlotsOffset       = 176
	ControlPageFloorRateMilliOffset   = 184
	ControlPageRepeatShareMilliOffset = 192
	ControlPageShareRateMilliOffset   = 200
	ControlPageCodelTargetNSOffset    = 208
	ControlPageCodelIntervalNSOffset  = 216
	ControlPagePaceIntervalNSOffset   = 224
	ControlPagePaceDepthNSOffset      = 232
	ControlPageBaseLimitMilliOffset   = 240
	ControlPageWritableOffset         = 256
	ControlPageJournalFullOffset      = 264
	ControlPageDurableGroupOffset     = 320
	ControlPageCPBeatOffset           = 384
	ControlPageStoppingOffset         = 392
	ControlPageNewestGenerationOffset = 400
	ControlPageElderLimitOffset       = 408
)

type shapeOfControlPage struct {
	magic            uint64
	layoutHash       uint64
	journalID        [16]byte
	_                [32]byte
	policyVersion    uint64
	_                [56]byte
	limit            uint64
	maxHeld          uint64
	holdBudgetNS     uint64
	holdBoundNS      uint64
	growing          uint64
	serviceTimeNS    uint64
	floorSlots       uint64
	floorRateMilli   uint64
	repeatShareMilli uint64
	shareRateMilli   uint64
	codelTargetNS    uint64
	codelIntervalNS  uint64
	paceIntervalNS   uint64
	paceDepthNS      uint64
	baseLimitMilli   uint64
	_                [8]byte
	writable         uint64
	journalFull      uint64
	_                [48]byte
	durableGroup     uint64
	_                [56]byte
	cpBeat           uint64
	stopping         uint64
	newestGeneration uint64
	elderLimit       uint64
	_                [3680]byte
}

var (
	_ [4096]byte = [unsafe.Sizeof(shapeOfControlPage{})]byte{}
	_ [0]byte    = [unsafe.Offsetof(shapeOfControlPage{}.magic)]byte{}
	_ [8]byte    = [unsafe.Offsetof(shapeOfControlPage{}.layoutHash)]byte{}
	_ [16]byte   = [unsafe.Offsetof(shapeOfControlPage{}.journalID)]byte{}
	_ [64]byte   = [unsafe.Offsetof(shapeOfControlPage{}.policyVersion)]byte{}
	_ [128]byte  = [unsafe.Offsetof(shapeOfControlPage{}.limit)]byte{}
	_ [136]byte  = [unsafe.Offsetof(shapeOfControlPage{}.maxHeld)]byte{}
	_ [144]byte  = [unsafe.Offsetof(shapeOfControlPage{}.holdBudgetNS)]byte{}
	_ [152]byte  = [unsafe.Offsetof(shapeOfControlPage{}.holdBoundNS)]byte{}
	_ [160]byte  = [unsafe.Offsetof(shapeOfControlPage{}.growing)]byte{}
	_ [168]byte  = [unsafe.Offsetof(shapeOfControlPage{}.serviceTimeNS)]byte{}
	_ [176]byte  = [unsafe.Offsetof(shapeOfControlPage{}.floorSlots)]byte{}
	_ [184]byte  = [unsafe.Offsetof(shapeOfControlPage{}.floorRateMilli)]byte{}
	_ [192]byte  = [unsafe.Offsetof(shapeOfControlPage{}.repeatShareMilli)]byte{}
	_ [200]byte  = [unsafe.Offsetof(shapeOfControlPage{}.shareRateMilli)]byte{}
	_ [208]byte  = [unsafe.Offsetof(shapeOfControlPage{}.codelTargetNS)]byte{}
	_ [216]byte  = [unsafe.Offsetof(shapeOfControlPage{}.codelIntervalNS)]byte{}
	_ [224]byte  = [unsafe.Offsetof(shapeOfControlPage{}.paceIntervalNS)]byte{}
	_ [232]byte  = [unsafe.Offsetof(shapeOfControlPage{}.paceDepthNS)]byte{}
	_ [240]byte  = [unsafe.Offsetof(shapeOfControlPage{}.baseLimitMilli)]byte{}
	_ [256]byte  = [unsafe.Offsetof(shapeOfControlPage{}.writable)]byte{}
	_ [264]byte  = [unsafe.Offsetof(shapeOfControlPage{}.journalFull)]byte{}
	_ [320]byte  = [unsafe.Offsetof(shapeOfControlPage{}.durableGroup)]byte{}
	_ [384]byte  = [unsafe.Offsetof(shapeOfControlPage{}.cpBeat)]byte{}
	_ [392]byte  = [unsafe.Offsetof(shapeOfControlPage{}.stopping)]byte{}
	_ [400]byte  = [unsafe.Offsetof(shapeOfControlPage{}.newestGeneration)]byte{}
	_ [408]byte  = [unsafe.Offsetof(shapeOfControlPage{}.elderLimit)]byte{}
)

// ControlPage: Numbers that the control plane tunes and every worker reads. Made once, kept over restarts.
// A view of mapped memory; it owns nothing. Every load is one atomic load.
type ControlPage struct{ base unsafe.Pointer }

// ViewControlPage looks at the first ControlPageSize bytes of a mapping, which start on 8.
func ViewControlPage(mapped []byte) ControlPage {
	_ = mapped[4095]
	return ControlPage{unsafe.Pointer(&mapped[0])}
}

// Magic is the word of that name.
func (p ControlPage) Magic() uint64 { return atomic.LoadUint64((*uint64)(unsafe.Add(p.base, 0))) }

// StoreMagic publishes the word.
func (p ControlPage) StoreMagic(v uint64) { atomic.StoreUint64((*uint64)(unsafe.Add(p.base, 0)), v) }

// LayoutHash is the word of that name.
func (p ControlPage) LayoutHash() uint64 { return atomic.LoadUint64((*uint64)(unsafe.Add(p.base, 8))) }

// StoreLayoutHash publishes the word.
func (p ControlPage) StoreLayoutHash(v uint64) {
	atomic.StoreUint64((*uint64)(unsafe.Add(p.base, 8)), v)
}

// JournalID is the word of that name.
func (p ControlPage) JournalID() [16]byte { return *(*[16]byte)(unsafe.Add(p.base, 16)) }

// StoreJournalID publishes the word.
func (p ControlPage) StoreJournalID(v [16]byte) { *(*[16]byte)(unsafe.Add(p.base, 16)) = v }

// PolicyVersion: even: at rest
func (p ControlPage) PolicyVersion() uint64 {
	return atomic.LoadUint64((*uint64)(unsafe.Add(p.base, 64)))
}

// StorePolicyVersion publishes the word.
func (p ControlPage) StorePolicyVersion(v uint64) {
	atomic.StoreUint64((*uint64)(unsafe.Add(p.base, 64)), v)
}

// Limit: requests in flight, the host's
func (p ControlPage) Limit() uint64 { return atomic.LoadUint64((*uint64)(unsafe.Add(p.base, 128))) }

// StoreLimit publishes the word.
func (p ControlPage) StoreLimit(v uint64) { atomic.StoreUint64((*uint64)(unsafe.Add(p.base, 128)), v) }

// MaxHeld is the word of that name.
func (p ControlPage) MaxHeld() uint64 { return atomic.LoadUint64((*uint64)(unsafe.Add(p.base, 136))) }

// StoreMaxHeld publishes the word.
func (p ControlPage) StoreMaxHeld(v uint64) {
	atomic.StoreUint64((*uint64)(unsafe.Add(p.base, 136)), v)
}

// HoldBudgetNS: upper bound of any hold
func (p ControlPage) HoldBudgetNS() uint64 {
	return atomic.LoadUint64((*uint64)(unsafe.Add(p.base, 144)))
}

// StoreHoldBudgetNS publishes the word.
func (p ControlPage) StoreHoldBudgetNS(v uint64) {
	atomic.StoreUint64((*uint64)(unsafe.Add(p.base, 144)), v)
}

// HoldBoundNS: H: the adaptive bound while a class is overloaded; 0: none
func (p ControlPage) HoldBoundNS() uint64 {
	return atomic.LoadUint64((*uint64)(unsafe.Add(p.base, 152)))
}

// StoreHoldBoundNS publishes the word.
func (p ControlPage) StoreHoldBoundNS(v uint64) {
	atomic.StoreUint64((*uint64)(unsafe.Add(p.base, 152)), v)
}

// Growing: 1: the limit is on its way up, who waits may wait longer
func (p ControlPage) Growing() uint64 { return atomic.LoadUint64((*uint64)(unsafe.Add(p.base, 160))) }

// StoreGrowing publishes the word.
func (p ControlPage) StoreGrowing(v uint64) {
	atomic.StoreUint64((*uint64)(unsafe.Add(p.base, 160)), v)
}

// ServiceTimeNS: W: from a slot taken to the frame durable, in the mean
func (p ControlPage) ServiceTimeNS() uint64 {
	return atomic.LoadUint64((*uint64)(unsafe.Add(p.base, 168)))
}

// StoreServiceTimeNS publishes the word.
func (p ControlPage) StoreServiceTimeNS(v uint64) {
	atomic.StoreUint64((*uint64)(unsafe.Add(p.base, 168)), v)
}

// FloorSlots: slots beyond the limit for the floor
func (p ControlPage) FloorSlots() uint64 {
	return atomic.LoadUint64((*uint64)(unsafe.Add(p.base, 176)))
}

// StoreFloorSlots publishes the word.
func (p ControlPage) StoreFloorSlots(v uint64) {
	atomic.StoreUint64((*uint64)(unsafe.Add(p.base, 176)), v)
}

// FloorRateMilli: thousandths of an event a second, the floor of all sources
func (p ControlPage) FloorRateMilli() uint64 {
	return atomic.LoadUint64((*uint64)(unsafe.Add(p.base, 184)))
}

// StoreFloorRateMilli publishes the word.
func (p ControlPage) StoreFloorRateMilli(v uint64) {
	atomic.StoreUint64((*uint64)(unsafe.Add(p.base, 184)), v)
}

// RepeatShareMilli: thousandths of the limit that repeats may use; 0: all of it
func (p ControlPage) RepeatShareMilli() uint64 {
	return atomic.LoadUint64((*uint64)(unsafe.Add(p.base, 192)))
}

// StoreRepeatShareMilli publishes the word.
func (p ControlPage) StoreRepeatShareMilli(v uint64) {
	atomic.StoreUint64((*uint64)(unsafe.Add(p.base, 192)), v)
}

// ShareRateMilli: each source's share, thousandths of an event a second; 0: no bound
func (p ControlPage) ShareRateMilli() uint64 {
	return atomic.LoadUint64((*uint64)(unsafe.Add(p.base, 200)))
}

// StoreShareRateMilli publishes the word.
func (p ControlPage) StoreShareRateMilli(v uint64) {
	atomic.StoreUint64((*uint64)(unsafe.Add(p.base, 200)), v)
}

// CodelTargetNS: 0: `overload: queue`
func (p ControlPage) CodelTargetNS() uint64 {
	return atomic.LoadUint64((*uint64)(unsafe.Add(p.base, 208)))
}

// StoreCodelTargetNS publishes the word.
func (p ControlPage) StoreCodelTargetNS(v uint64) {
	atomic.StoreUint64((*uint64)(unsafe.Add(p.base, 208)), v)
}

// CodelIntervalNS is the word of that name.
func (p ControlPage) CodelIntervalNS() uint64 {
	return atomic.LoadUint64((*uint64)(unsafe.Add(p.base, 216)))
}

// StoreCodelIntervalNS publishes the word.
func (p ControlPage) StoreCodelIntervalNS(v uint64) {
	atomic.StoreUint64((*uint64)(unsafe.Add(p.base, 216)), v)
}

// PaceIntervalNS: `pacing: little`: one slot each so long; 0: off
func (p ControlPage) PaceIntervalNS() uint64 {
	return atomic.LoadUint64((*uint64)(unsafe.Add(p.base, 224)))
}

// StorePaceIntervalNS publishes the word.
func (p ControlPage) StorePaceIntervalNS(v uint64) {
	atomic.StoreUint64((*uint64)(unsafe.Add(p.base, 224)), v)
}

// PaceDepthNS is the word of that name.
func (p ControlPage) PaceDepthNS() uint64 {
	return atomic.LoadUint64((*uint64)(unsafe.Add(p.base, 232)))
}

// StorePaceDepthNS publishes the word.
func (p ControlPage) StorePaceDepthNS(v uint64) {
	atomic.StoreUint64((*uint64)(unsafe.Add(p.base, 232)), v)
}

// BaseLimitMilli: the limit without its alternation: where a restart goes on
func (p ControlPage) BaseLimitMilli() uint64 {
	return atomic.LoadUint64((*uint64)(unsafe.Add(p.base, 240)))
}

// StoreBaseLimitMilli publishes the word.
func (p ControlPage) StoreBaseLimitMilli(v uint64) {
	atomic.StoreUint64((*uint64)(unsafe.Add(p.base, 240)), v)
}

// Writable: 1: the journal takes groups
func (p ControlPage) Writable() uint64 { return atomic.LoadUint64((*uint64)(unsafe.Add(p.base, 256))) }

// StoreWritable publishes the word.
func (p ControlPage) StoreWritable(v uint64) {
	atomic.StoreUint64((*uint64)(unsafe.Add(p.base, 256)), v)
}

// JournalFull: 1: answer 503 Ingestion-Queue-Full
func (p ControlPage) JournalFull() uint64 {
	return atomic.LoadUint64((*uint64)(unsafe.Add(p.base, 264)))
}

// StoreJournalFull publishes the word.
func (p ControlPage) StoreJournalFull(v uint64) {
	atomic.StoreUint64((*uint64)(unsafe.Add(p.base, 264)), v)
}

// DurableGroup is the word of that name.
func (p ControlPage) DurableGroup() uint64 {
	return atomic.LoadUint64((*uint64)(unsafe.Add(p.base, 320)))
}

// StoreDurableGroup publishes the word.
func (p ControlPage) StoreDurableGroup(v uint64) {
	atomic.StoreUint64((*uint64)(unsafe.Add(p.base, 320)), v)
}

// CPBeat: boot clock, ns
func (p ControlPage) CPBeat() uint64 { return atomic.LoadUint64((*uint64)(unsafe.Add(p.base, 384))) }

// StoreCPBeat publishes the word.
func (p ControlPage) StoreCPBeat(v uint64) { atomic.StoreUint64((*uint64)(unsafe.Add(p.base, 384)), v) }

// Stopping is the word of that name.
func (p ControlPage) Stopping() uint64 { return atomic.LoadUint64((*uint64)(unsafe.Add(p.base, 392))) }

// StoreStopping publishes the word.
func (p ControlPage) StoreStopping(v uint64) {
	atomic.StoreUint64((*uint64)(unsafe.Add(p.base, 392)), v)
}

// NewestGeneration: of the data planes that run
func (p ControlPage) NewestGeneration() uint64 {
	return atomic.LoadUint64((*uint64)(unsafe.Add(p.base, 400)))
}

// StoreNewestGeneration publishes the word.
func (p ControlPage) StoreNewestGeneration(v uint64) {
	atomic.StoreUint64((*uint64)(unsafe.Add(p.base, 400)), v)
}

// ElderLimit: the limit of each older one, which finishes what it has
func (p ControlPage) ElderLimit() uint64 {
	return atomic.LoadUint64((*uint64)(unsafe.Add(p.base, 408)))
}

// StoreElderLimit publishes the word.
func (p ControlPage) StoreElderLimit(v uint64) {
	atomic.StoreUint64((*uint64)(unsafe.Add(p.base, 408)), v)
}

// CountersHeaderSize is the size of a CountersHeader in bytes.
const CountersHeaderSize = 4096

// Where the fields of a CountersHeader are.
const (
	CountersHeaderMagicOffset           = 0
	CountersHeaderLayoutHashOffset      = 8
	CountersHeaderGenerationOffset      = 16
	CountersHeaderPidOffset             = 20
	CountersHeaderWorkersOffset         = 24
	CountersHeaderSourcesOffset         = 28
	CountersHeaderInflightOffset        = 128
	CountersHeaderHeldOffset            = 136
	CountersHeaderPeakOffset            = 144
	CountersHeaderOverloadedOffset      = 152
	CountersHeaderOverloadSinceNSOffset = 160
	CountersHeaderMeteredNSOffset       = 168
	CountersHeaderAreaNSOffset          = 176
	CountersHeaderSaturatedNSOffset     = 184
	CountersHeaderDPBeatOffset          = 256
	CountersHeaderConnectionsOffset     = 320
)

type shapeOfCountersHeader struct {
	magic           uint64
	layoutHash      uint64
	generation      uint32
	pid             uint32
	workers         uint32
	sources         uint32
	_               [96]byte
	inflight        uint64
	held            uint64
	peak            uint64
	overloaded      uint64
	overloadSinceNS uint64
	meteredNS       uint64
	areaNS          uint64
	saturatedNS     uint64
	_               [64]byte
	dpBeat          uint64
	_               [56]byte
	connections     uint64
	_               [3768]byte
}

var (
	_ [4096]byte = [unsafe.Sizeof(shapeOfCountersHeader{})]byte{}
	_ [0]byte    = [unsafe.Offsetof(shapeOfCountersHeader{}.magic)]byte{}
	_ [8]byte    = [unsafe.Offsetof(shapeOfCountersHeader{}.layoutHash)]byte{}
	_ [16]byte   = [unsafe.Offsetof(shapeOfCountersHeader{}.generation)]byte{}
	_ [20]byte   = [unsafe.Offsetof(shapeOfCountersHeader{}.pid)]byte{}
	_ [24]byte   = [unsafe.Offsetof(shapeOfCountersHeader{}.workers)]byte{}
	_ [28]byte   = [unsafe.Offsetof(shapeOfCountersHeader{}.sources)]byte{}
	_ [128]byte  = [unsafe.Offsetof(shapeOfCountersHeader{}.inflight)]byte{}
	_ [136]byte  = [unsafe.Offsetof(shapeOfCountersHeader{}.held)]byte{}
	_ [144]byte  = [unsafe.Offsetof(shapeOfCountersHeader{}.peak)]byte{}
	_ [152]byte  = [unsafe.Offsetof(shapeOfCountersHeader{}.overloaded)]byte{}
	_ [160]byte  = [unsafe.Offsetof(shapeOfCountersHeader{}.overloadSinceNS)]byte{}
	_ [168]byte  = [unsafe.Offsetof(shapeOfCountersHeader{}.meteredNS)]byte{}
	_ [176]byte  = [unsafe.Offsetof(shapeOfCountersHeader{}.areaNS)]byte{}
	_ [184]byte  = [unsafe.Offsetof(shapeOfCountersHeader{}.saturatedNS)]byte{}
	_ [256]byte  = [unsafe.Offsetof(shapeOfCountersHeader{}.dpBeat)]byte{}
	_ [320]byte  = [unsafe.Offsetof(shapeOfCountersHeader{}.connections)]byte{}
)

// CountersHeader: First page of a data plane's counters file; one WorkerCounters each, then the source tables.
// A view of mapped memory; it owns nothing. Every load is one atomic load.
type CountersHeader struct{ base unsafe.Pointer }

// ViewCountersHeader looks at the first CountersHeaderSize bytes of a mapping, which start on 8.
func ViewCountersHeader(mapped []byte) CountersHeader {
	_ = mapped[4095]
	return CountersHeader{unsafe.Pointer(&mapped[0])}
}

// Magic is the word of that name.
func (p CountersHeader) Magic() uint64 { return atomic.LoadUint64((*uint64)(unsafe.Add(p.base, 0))) }

// LayoutHash is the word of that name.
func (p CountersHeader) LayoutHash() uint64 {
	return atomic.LoadUint64((*uint64)(unsafe.Add(p.base, 8)))
}

// Generation is the word of that name.
func (p CountersHeader) Generation() uint32 {
	return atomic.LoadUint32((*uint32)(unsafe.Add(p.base, 16)))
}

// Pid is the word of that name.
func (p CountersHeader) Pid() uint32 { return atomic.LoadUint32((*uint32)(unsafe.Add(p.base, 20))) }

// Workers is the word of that name.
func (p CountersHeader) Workers() uint32 { return atomic.LoadUint32((*uint32)(unsafe.Add(p.base, 24))) }

// Sources is the word of that name.
func (p CountersHeader) Sources() uint32 { return atomic.LoadUint32((*uint32)(unsafe.Add(p.base, 28))) }

// Inflight: slots taken, all workers
func (p CountersHeader) Inflight() uint64 {
	return atomic.LoadUint64((*uint64)(unsafe.Add(p.base, 128)))
}

// Held is the word of that name.
func (p CountersHeader) Held() uint64 { return atomic.LoadUint64((*uint64)(unsafe.Add(p.base, 136))) }

// Peak: most slots taken at once in the last 100 to 200 ms
func (p CountersHeader) Peak() uint64 { return atomic.LoadUint64((*uint64)(unsafe.Add(p.base, 144))) }

// Overloaded: bit per class
func (p CountersHeader) Overloaded() uint64 {
	return atomic.LoadUint64((*uint64)(unsafe.Add(p.base, 152)))
}

// OverloadSinceNS: boot clock; 0: no class is overloaded
func (p CountersHeader) OverloadSinceNS() uint64 {
	return atomic.LoadUint64((*uint64)(unsafe.Add(p.base, 160)))
}

// MeteredNS: boot clock: the next two are counted up to here
func (p CountersHeader) MeteredNS() uint64 {
	return atomic.LoadUint64((*uint64)(unsafe.Add(p.base, 168)))
}

// AreaNS: slots taken × time
func (p CountersHeader) AreaNS() uint64 { return atomic.LoadUint64((*uint64)(unsafe.Add(p.base, 176))) }

// SaturatedNS: time with all slots of the limit taken
func (p CountersHeader) SaturatedNS() uint64 {
	return atomic.LoadUint64((*uint64)(unsafe.Add(p.base, 184)))
}

// DPBeat is the word of that name.
func (p CountersHeader) DPBeat() uint64 { return atomic.LoadUint64((*uint64)(unsafe.Add(p.base, 256))) }

// Connections is the word of that name.
func (p CountersHeader) Connections() uint64 {
	return atomic.LoadUint64((*uint64)(unsafe.Add(p.base, 320)))
}

// WorkerCountersSize is the size of a WorkerCounters in bytes.
const WorkerCountersSize = 4096

// Where the fields of a WorkerCounters are.
const (
	WorkerCountersAcceptedOffset           = 0
	WorkerCountersClosedOffset             = 8
	WorkerCountersRequestsOffset           = 16
	WorkerCountersFramesOffset             = 24
	WorkerCountersFrameBytesOffset         = 32
	WorkerCountersRepliesOffset            = 40
	WorkerCountersLateRepliesOffset        = 48
	WorkerCountersRingsOffset              = 56
	WorkerCountersWakesOffset              = 64
	WorkerCountersBeltWakesOffset          = 72
	WorkerCountersBudgetOverOffset         = 80
	WorkerCountersLaneFullOffset           = 88
	WorkerCountersRecvStarvedOffset        = 96
	WorkerCountersAcceptPausedOffset       = 104
	WorkerCountersCqOverflowOffset         = 112
	WorkerCountersTurnsOffset              = 120
	WorkerCountersUnroutedOffset           = 128
	WorkerCountersBytesInOffset            = 136
	WorkerCountersBytesOutOffset           = 144
	WorkerCountersTurnNSMaxOffset          = 152
	WorkerCountersMalformedOffset          = 160
	WorkerCountersRefusedConnectionsOffset = 168
	WorkerCountersTLSHandshakesOffset      = 176
	WorkerCountersTLSResumedOffset         = 184
	WorkerCountersSamplesOffset            = 192
	WorkerCountersSampleSumNSOffset        = 200
	WorkerCountersVoidNSOffset             = 208
	WorkerCountersDropsOffset              = 216
	WorkerCountersRefusedEntriesOffset     = 224
	WorkerCountersFlooredOffset            = 232
	WorkerCountersTLSFailedOffset          = 240
	WorkerCountersTLSLateOffset            = 248
	WorkerCountersClassOfferedOffset       = 256
	WorkerCountersClassAdmittedOffset      = 320
	WorkerCountersClassHeldOffset          = 384
	WorkerCountersClassShedOffset          = 448
	WorkerCountersTLSHeldOffset            = 512
	WorkerCountersProxyRefusedOffset       = 520
	WorkerCountersKeptBytesOffset          = 528
	WorkerCountersKeptRefusedOffset        = 536
	WorkerCountersTooSlowOffset            = 544
)

type shapeOfWorkerCounters struct {
	accepted           uint64
	closed             uint64
	requests           uint64
	frames             uint64
	frameBytes         uint64
	replies            uint64
	lateReplies        uint64
	rings              uint64
	wakes              uint64
	beltWakes          uint64
	budgetOver         uint64
	laneFull           uint64
	recvStarved        uint64
	acceptPaused       uint64
	cqOverflow         uint64
	turns              uint64
	unrouted           uint64
	bytesIn            uint64
	bytesOut           uint64
	turnNSMax          uint64
	malformed          uint64
	refusedConnections uint64
	tlSHandshakes      uint64
	tlSResumed         uint64
	samples            uint64
	sampleSumNS        uint64
	voidNS             uint64
	drops              uint64
	refusedEntries     uint64
	floored            uint64
	tlSFailed          uint64
	tlSLate            uint64
	classOffered       [8]uint64
	classAdmitted      [8]uint64
	classHeld          [8]uint64
	classShed          [8]uint64
	tlSHeld            uint64
	proxyRefused       uint64
	keptBytes          uint64
	keptRefused        uint64
	tooSlow            uint64
	_                  [3544]byte
}

var (
	_ [4096]byte = [unsafe.Sizeof(shapeOfWorkerCounters{})]byte{}
	_ [0]byte    = [unsafe.Offsetof(shapeOfWorkerCounters{}.accepted)]byte{}
	_ [8]byte    = [unsafe.Offsetof(shapeOfWorkerCounters{}.closed)]byte{}
	_ [16]byte   = [unsafe.Offsetof(shapeOfWorkerCounters{}.requests)]byte{}
	_ [24]byte   = [unsafe.Offsetof(shapeOfWorkerCounters{}.frames)]byte{}
	_ [32]byte   = [unsafe.Offsetof(shapeOfWorkerCounters{}.frameBytes)]byte{}
	_ [40]byte   = [unsafe.Offsetof(shapeOfWorkerCounters{}.replies)]byte{}
	_ [48]byte   = [unsafe.Offsetof(shapeOfWorkerCounters{}.lateReplies)]byte{}
	_ [56]byte   = [unsafe.Offsetof(shapeOfWorkerCounters{}.rings)]byte{}
	_ [64]byte   = [unsafe.Offsetof(shapeOfWorkerCounters{}.wakes)]byte{}
	_ [72]byte   = [unsafe.Offsetof(shapeOfWorkerCounters{}.beltWakes)]byte{}
	_ [80]byte   = [unsafe.Offsetof(shapeOfWorkerCounters{}.budgetOver)]byte{}
	_ [88]byte   = [unsafe.Offsetof(shapeOfWorkerCounters{}.laneFull)]byte{}
	_ [96]byte   = [unsafe.Offsetof(shapeOfWorkerCounters{}.recvStarved)]byte{}
	_ [104]byte  = [unsafe.Offsetof(shapeOfWorkerCounters{}.acceptPaused)]byte{}
	_ [112]byte  = [unsafe.Offsetof(shapeOfWorkerCounters{}.cqOverflow)]byte{}
	_ [120]byte  = [unsafe.Offsetof(shapeOfWorkerCounters{}.turns)]byte{}
	_ [128]byte  = [unsafe.Offsetof(shapeOfWorkerCounters{}.unrouted)]byte{}
	_ [136]byte  = [unsafe.Offsetof(shapeOfWorkerCounters{}.bytesIn)]byte{}
	_ [144]byte  = [unsafe.Offsetof(shapeOfWorkerCounters{}.bytesOut)]byte{}
	_ [152]byte  = [unsafe.Offsetof(shapeOfWorkerCounters{}.turnNSMax)]byte{}
	_ [160]byte  = [unsafe.Offsetof(shapeOfWorkerCounters{}.malformed)]byte{}
	_ [168]byte  = [unsafe.Offsetof(shapeOfWorkerCounters{}.refusedConnections)]byte{}
	_ [176]byte  = [unsafe.Offsetof(shapeOfWorkerCounters{}.tlSHandshakes)]byte{}
	_ [184]byte  = [unsafe.Offsetof(shapeOfWorkerCounters{}.tlSResumed)]byte{}
	_ [192]byte  = [unsafe.Offsetof(shapeOfWorkerCounters{}.samples)]byte{}
	_ [200]byte  = [unsafe.Offsetof(shapeOfWorkerCounters{}.sampleSumNS)]byte{}
	_ [208]byte  = [unsafe.Offsetof(shapeOfWorkerCounters{}.voidNS)]byte{}
	_ [216]byte  = [unsafe.Offsetof(shapeOfWorkerCounters{}.drops)]byte{}
	_ [224]byte  = [unsafe.Offsetof(shapeOfWorkerCounters{}.refusedEntries)]byte{}
	_ [232]byte  = [unsafe.Offsetof(shapeOfWorkerCounters{}.floored)]byte{}
	_ [240]byte  = [unsafe.Offsetof(shapeOfWorkerCounters{}.tlSFailed)]byte{}
	_ [248]byte  = [unsafe.Offsetof(shapeOfWorkerCounters{}.tlSLate)]byte{}
	_ [256]byte  = [unsafe.Offsetof(shapeOfWorkerCounters{}.classOffered)]byte{}
	_ [320]byte  = [unsafe.Offsetof(shapeOfWorkerCounters{}.classAdmitted)]byte{}
	_ [384]byte  = [unsafe.Offsetof(shapeOfWorkerCounters{}.classHeld)]byte{}
	_ [448]byte  = [unsafe.Offsetof(shapeOfWorkerCounters{}.classShed)]byte{}
	_ [512]byte  = [unsafe.Offsetof(shapeOfWorkerCounters{}.tlSHeld)]byte{}
	_ [520]byte  = [unsafe.Offsetof(shapeOfWorkerCounters{}.proxyRefused)]byte{}
	_ [528]byte  = [unsafe.Offsetof(shapeOfWorkerCounters{}.keptBytes)]byte{}
	_ [536]byte  = [unsafe.Offsetof(shapeOfWorkerCounters{}.keptRefused)]byte{}
	_ [544]byte  = [unsafe.Offsetof(shapeOfWorkerCounters{}.tooSlow)]byte{}
)

// WorkerCounters: One worker's counts.
// A view of mapped memory; it owns nothing. Every load is one atomic load.
type WorkerCounters struct{ base unsafe.Pointer }

// ViewWorkerCounters looks at the first WorkerCountersSize bytes of a mapping, which start on 8.
func ViewWorkerCounters(mapped []byte) WorkerCounters {
	_ = mapped[4095]
	return WorkerCounters{unsafe.Pointer(&mapped[0])}
}

// Accepted: connections
func (p WorkerCounters) Accepted() uint64 { return atomic.LoadUint64((*uint64)(unsafe.Add(p.base, 0))) }

// Closed is the word of that name.
func (p WorkerCounters) Closed() uint64 { return atomic.LoadUint64((*uint64)(unsafe.Add(p.base, 8))) }

// Requests: requests parsed
func (p WorkerCounters) Requests() uint64 {
	return atomic.LoadUint64((*uint64)(unsafe.Add(p.base, 16)))
}

// Frames is the word of that name.
func (p WorkerCounters) Frames() uint64 { return atomic.LoadUint64((*uint64)(unsafe.Add(p.base, 24))) }

// FrameBytes is the word of that name.
func (p WorkerCounters) FrameBytes() uint64 {
	return atomic.LoadUint64((*uint64)(unsafe.Add(p.base, 32)))
}

// Replies is the word of that name.
func (p WorkerCounters) Replies() uint64 { return atomic.LoadUint64((*uint64)(unsafe.Add(p.base, 40))) }

// LateReplies: token, seq or state did not fit
func (p WorkerCounters) LateReplies() uint64 {
	return atomic.LoadUint64((*uint64)(unsafe.Add(p.base, 48)))
}

// Rings: doorbells written to the control plane
func (p WorkerCounters) Rings() uint64 { return atomic.LoadUint64((*uint64)(unsafe.Add(p.base, 56))) }

// Wakes: doorbells received
func (p WorkerCounters) Wakes() uint64 { return atomic.LoadUint64((*uint64)(unsafe.Add(p.base, 64))) }

// BeltWakes: replies that only the bound on a sleep found
func (p WorkerCounters) BeltWakes() uint64 {
	return atomic.LoadUint64((*uint64)(unsafe.Add(p.base, 72)))
}

// BudgetOver: 503 after the sender's budget
func (p WorkerCounters) BudgetOver() uint64 {
	return atomic.LoadUint64((*uint64)(unsafe.Add(p.base, 80)))
}

// LaneFull is the word of that name.
func (p WorkerCounters) LaneFull() uint64 {
	return atomic.LoadUint64((*uint64)(unsafe.Add(p.base, 88)))
}

// RecvStarved: ENOBUFS
func (p WorkerCounters) RecvStarved() uint64 {
	return atomic.LoadUint64((*uint64)(unsafe.Add(p.base, 96)))
}

// AcceptPaused: EMFILE, ENFILE
func (p WorkerCounters) AcceptPaused() uint64 {
	return atomic.LoadUint64((*uint64)(unsafe.Add(p.base, 104)))
}

// CqOverflow is the word of that name.
func (p WorkerCounters) CqOverflow() uint64 {
	return atomic.LoadUint64((*uint64)(unsafe.Add(p.base, 112)))
}

// Turns is the word of that name.
func (p WorkerCounters) Turns() uint64 { return atomic.LoadUint64((*uint64)(unsafe.Add(p.base, 120))) }

// Unrouted: answers without a source: 404 and the like
func (p WorkerCounters) Unrouted() uint64 {
	return atomic.LoadUint64((*uint64)(unsafe.Add(p.base, 128)))
}

// BytesIn is the word of that name.
func (p WorkerCounters) BytesIn() uint64 {
	return atomic.LoadUint64((*uint64)(unsafe.Add(p.base, 136)))
}

// BytesOut is the word of that name.
func (p WorkerCounters) BytesOut() uint64 {
	return atomic.LoadUint64((*uint64)(unsafe.Add(p.base, 144)))
}

// TurnNSMax is the word of that name.
func (p WorkerCounters) TurnNSMax() uint64 {
	return atomic.LoadUint64((*uint64)(unsafe.Add(p.base, 152)))
}

// Malformed is the word of that name.
func (p WorkerCounters) Malformed() uint64 {
	return atomic.LoadUint64((*uint64)(unsafe.Add(p.base, 160)))
}

// RefusedConnections: max_connections
func (p WorkerCounters) RefusedConnections() uint64 {
	return atomic.LoadUint64((*uint64)(unsafe.Add(p.base, 168)))
}

// TLSHandshakes: completed ones
func (p WorkerCounters) TLSHandshakes() uint64 {
	return atomic.LoadUint64((*uint64)(unsafe.Add(p.base, 176)))
}

// TLSResumed: of these: by a ticket
func (p WorkerCounters) TLSResumed() uint64 {
	return atomic.LoadUint64((*uint64)(unsafe.Add(p.base, 184)))
}

// Samples: slots given back by frames that became durable
func (p WorkerCounters) Samples() uint64 {
	return atomic.LoadUint64((*uint64)(unsafe.Add(p.base, 192)))
}

// SampleSumNS: how long those were taken
func (p WorkerCounters) SampleSumNS() uint64 {
	return atomic.LoadUint64((*uint64)(unsafe.Add(p.base, 200)))
}

// VoidNS: how long the others were: part of area_ns, of no sample
func (p WorkerCounters) VoidNS() uint64 { return atomic.LoadUint64((*uint64)(unsafe.Add(p.base, 208))) }

// Drops: no answer in time, or the journal refused
func (p WorkerCounters) Drops() uint64 { return atomic.LoadUint64((*uint64)(unsafe.Add(p.base, 216))) }

// RefusedEntries: ever written to the ring of refusals
func (p WorkerCounters) RefusedEntries() uint64 {
	return atomic.LoadUint64((*uint64)(unsafe.Add(p.base, 224)))
}

// Floored: admitted by the floor
func (p WorkerCounters) Floored() uint64 {
	return atomic.LoadUint64((*uint64)(unsafe.Add(p.base, 232)))
}

// TLSFailed: handshakes that the sender or we broke off
func (p WorkerCounters) TLSFailed() uint64 {
	return atomic.LoadUint64((*uint64)(unsafe.Add(p.base, 240)))
}

// TLSLate: of these: not done in time
func (p WorkerCounters) TLSLate() uint64 {
	return atomic.LoadUint64((*uint64)(unsafe.Add(p.base, 248)))
}

// ClassOffered: requests that asked for a slot, by class
func (p WorkerCounters) ClassOffered(i int) uint64 {
	_ = [8]struct{}{}[i]
	return atomic.LoadUint64((*uint64)(unsafe.Add(p.base, 256+8*i)))
}

// ClassAdmitted is the word of that name.
func (p WorkerCounters) ClassAdmitted(i int) uint64 {
	_ = [8]struct{}{}[i]
	return atomic.LoadUint64((*uint64)(unsafe.Add(p.base, 320+8*i)))
}

// ClassHeld: of all offered: those that had to wait
func (p WorkerCounters) ClassHeld(i int) uint64 {
	_ = [8]struct{}{}[i]
	return atomic.LoadUint64((*uint64)(unsafe.Add(p.base, 384+8*i)))
}

// ClassShed is the word of that name.
func (p WorkerCounters) ClassShed(i int) uint64 {
	_ = [8]struct{}{}[i]
	return atomic.LoadUint64((*uint64)(unsafe.Add(p.base, 448+8*i)))
}

// TLSHeld: handshakes that waited for the bound on their rate
func (p WorkerCounters) TLSHeld() uint64 {
	return atomic.LoadUint64((*uint64)(unsafe.Add(p.base, 512)))
}

// ProxyRefused: a PROXY header that is missing, wrong, or from who may not send it
func (p WorkerCounters) ProxyRefused() uint64 {
	return atomic.LoadUint64((*uint64)(unsafe.Add(p.base, 520)))
}

// KeptBytes: of requests that are not whole or wait
func (p WorkerCounters) KeptBytes() uint64 {
	return atomic.LoadUint64((*uint64)(unsafe.Add(p.base, 528)))
}

// KeptRefused: requests that found no room among these
func (p WorkerCounters) KeptRefused() uint64 {
	return atomic.LoadUint64((*uint64)(unsafe.Add(p.base, 536)))
}

// TooSlow: requests that did not come in time
func (p WorkerCounters) TooSlow() uint64 {
	return atomic.LoadUint64((*uint64)(unsafe.Add(p.base, 544)))
}

// SourceCountersSize is the size of a SourceCounters in bytes.
const SourceCountersSize = 576

// Where the fields of a SourceCounters are.
const (
	SourceCountersCode2xxOffset      = 0
	SourceCountersCode400Offset      = 8
	SourceCountersCode401Offset      = 16
	SourceCountersCode403Offset      = 24
	SourceCountersCode404Offset      = 32
	SourceCountersCode405Offset      = 40
	SourceCountersCode408Offset      = 48
	SourceCountersCode413Offset      = 56
	SourceCountersCode429Offset      = 64
	SourceCountersCode431Offset      = 72
	SourceCountersCode503Offset      = 80
	SourceCountersCodeOtherOffset    = 88
	SourceCountersShedHoldOffset     = 96
	SourceCountersShedHeldFullOffset = 104
	SourceCountersShedLaneOffset     = 112
	SourceCountersShedRateOffset     = 120
	SourceCountersShedJournalOffset  = 128
	SourceCountersShedStoppingOffset = 136
	SourceCountersShedBudgetOffset   = 144
	SourceCountersShedClassOffset    = 152
	SourceCountersAckCountOffset     = 160
	SourceCountersAckSumNSOffset     = 168
	SourceCountersHoldCountOffset    = 176
	SourceCountersHoldSumNSOffset    = 184
	SourceCountersAckBucketOffset    = 192
	SourceCountersHoldBucketOffset   = 384
	SourceCountersOfferedOffset      = 512
	SourceCountersOverShareOffset    = 520
	SourceCountersRepeatsOffset      = 528
	SourceCountersFlooredOffset      = 536
)

type shapeOfSourceCounters struct {
	code2xx      uint64
	code400      uint64
	code401      uint64
	code403      uint64
	code404      uint64
	code405      uint64
	code408      uint64
	code413      uint64
	code429      uint64
	code431      uint64
	code503      uint64
	codeOther    uint64
	shedHold     uint64
	shedHeldFull uint64
	shedLane     uint64
	shedRate     uint64
	shedJournal  uint64
	shedStopping uint64
	shedBudget   uint64
	shedClass    uint64
	ackCount     uint64
	ackSumNS     uint64
	holdCount    uint64
	holdSumNS    uint64
	ackBucket    [24]uint64
	holdBucket   [16]uint64
	offered      uint64
	overShare    uint64
	repeats      uint64
	floored      uint64
	_            [32]byte
}

var (
	_ [576]byte = [unsafe.Sizeof(shapeOfSourceCounters{})]byte{}
	_ [0]byte   = [unsafe.Offsetof(shapeOfSourceCounters{}.code2xx)]byte{}
	_ [8]byte   = [unsafe.Offsetof(shapeOfSourceCounters{}.code400)]byte{}
	_ [16]byte  = [unsafe.Offsetof(shapeOfSourceCounters{}.code401)]byte{}
	_ [24]byte  = [unsafe.Offsetof(shapeOfSourceCounters{}.code403)]byte{}
	_ [32]byte  = [unsafe.Offsetof(shapeOfSourceCounters{}.code404)]byte{}
	_ [40]byte  = [unsafe.Offsetof(shapeOfSourceCounters{}.code405)]byte{}
	_ [48]byte  = [unsafe.Offsetof(shapeOfSourceCounters{}.code408)]byte{}
	_ [56]byte  = [unsafe.Offsetof(shapeOfSourceCounters{}.code413)]byte{}
	_ [64]byte  = [unsafe.Offsetof(shapeOfSourceCounters{}.code429)]byte{}
	_ [72]byte  = [unsafe.Offsetof(shapeOfSourceCounters{}.code431)]byte{}
	_ [80]byte  = [unsafe.Offsetof(shapeOfSourceCounters{}.code503)]byte{}
	_ [88]byte  = [unsafe.Offsetof(shapeOfSourceCounters{}.codeOther)]byte{}
	_ [96]byte  = [unsafe.Offsetof(shapeOfSourceCounters{}.shedHold)]byte{}
	_ [104]byte = [unsafe.Offsetof(shapeOfSourceCounters{}.shedHeldFull)]byte{}
	_ [112]byte = [unsafe.Offsetof(shapeOfSourceCounters{}.shedLane)]byte{}
	_ [120]byte = [unsafe.Offsetof(shapeOfSourceCounters{}.shedRate)]byte{}
	_ [128]byte = [unsafe.Offsetof(shapeOfSourceCounters{}.shedJournal)]byte{}
	_ [136]byte = [unsafe.Offsetof(shapeOfSourceCounters{}.shedStopping)]byte{}
	_ [144]byte = [unsafe.Offsetof(shapeOfSourceCounters{}.shedBudget)]byte{}
	_ [152]byte = [unsafe.Offsetof(shapeOfSourceCounters{}.shedClass)]byte{}
	_ [160]byte = [unsafe.Offsetof(shapeOfSourceCounters{}.ackCount)]byte{}
	_ [168]byte = [unsafe.Offsetof(shapeOfSourceCounters{}.ackSumNS)]byte{}
	_ [176]byte = [unsafe.Offsetof(shapeOfSourceCounters{}.holdCount)]byte{}
	_ [184]byte = [unsafe.Offsetof(shapeOfSourceCounters{}.holdSumNS)]byte{}
	_ [192]byte = [unsafe.Offsetof(shapeOfSourceCounters{}.ackBucket)]byte{}
	_ [384]byte = [unsafe.Offsetof(shapeOfSourceCounters{}.holdBucket)]byte{}
	_ [512]byte = [unsafe.Offsetof(shapeOfSourceCounters{}.offered)]byte{}
	_ [520]byte = [unsafe.Offsetof(shapeOfSourceCounters{}.overShare)]byte{}
	_ [528]byte = [unsafe.Offsetof(shapeOfSourceCounters{}.repeats)]byte{}
	_ [536]byte = [unsafe.Offsetof(shapeOfSourceCounters{}.floored)]byte{}
)

// SourceCounters: One per worker and source slot.
// A view of mapped memory; it owns nothing. Every load is one atomic load.
type SourceCounters struct{ base unsafe.Pointer }

// ViewSourceCounters looks at the first SourceCountersSize bytes of a mapping, which start on 8.
func ViewSourceCounters(mapped []byte) SourceCounters {
	_ = mapped[575]
	return SourceCounters{unsafe.Pointer(&mapped[0])}
}

// Code2xx is the word of that name.
func (p SourceCounters) Code2xx() uint64 { return atomic.LoadUint64((*uint64)(unsafe.Add(p.base, 0))) }

// Code400 is the word of that name.
func (p SourceCounters) Code400() uint64 { return atomic.LoadUint64((*uint64)(unsafe.Add(p.base, 8))) }

// Code401 is the word of that name.
func (p SourceCounters) Code401() uint64 { return atomic.LoadUint64((*uint64)(unsafe.Add(p.base, 16))) }

// Code403 is the word of that name.
func (p SourceCounters) Code403() uint64 { return atomic.LoadUint64((*uint64)(unsafe.Add(p.base, 24))) }

// Code404 is the word of that name.
func (p SourceCounters) Code404() uint64 { return atomic.LoadUint64((*uint64)(unsafe.Add(p.base, 32))) }

// Code405 is the word of that name.
func (p SourceCounters) Code405() uint64 { return atomic.LoadUint64((*uint64)(unsafe.Add(p.base, 40))) }

// Code408 is the word of that name.
func (p SourceCounters) Code408() uint64 { return atomic.LoadUint64((*uint64)(unsafe.Add(p.base, 48))) }

// Code413 is the word of that name.
func (p SourceCounters) Code413() uint64 { return atomic.LoadUint64((*uint64)(unsafe.Add(p.base, 56))) }

// Code429 is the word of that name.
func (p SourceCounters) Code429() uint64 { return atomic.LoadUint64((*uint64)(unsafe.Add(p.base, 64))) }

// Code431 is the word of that name.
func (p SourceCounters) Code431() uint64 { return atomic.LoadUint64((*uint64)(unsafe.Add(p.base, 72))) }

// Code503 is the word of that name.
func (p SourceCounters) Code503() uint64 { return atomic.LoadUint64((*uint64)(unsafe.Add(p.base, 80))) }

// CodeOther is the word of that name.
func (p SourceCounters) CodeOther() uint64 {
	return atomic.LoadUint64((*uint64)(unsafe.Add(p.base, 88)))
}

// ShedHold: hold bound spent
func (p SourceCounters) ShedHold() uint64 {
	return atomic.LoadUint64((*uint64)(unsafe.Add(p.base, 96)))
}

// ShedHeldFull: queue full
func (p SourceCounters) ShedHeldFull() uint64 {
	return atomic.LoadUint64((*uint64)(unsafe.Add(p.base, 104)))
}

// ShedLane: lane over 90 %
func (p SourceCounters) ShedLane() uint64 {
	return atomic.LoadUint64((*uint64)(unsafe.Add(p.base, 112)))
}

// ShedRate is the word of that name.
func (p SourceCounters) ShedRate() uint64 {
	return atomic.LoadUint64((*uint64)(unsafe.Add(p.base, 120)))
}

// ShedJournal is the word of that name.
func (p SourceCounters) ShedJournal() uint64 {
	return atomic.LoadUint64((*uint64)(unsafe.Add(p.base, 128)))
}

// ShedStopping is the word of that name.
func (p SourceCounters) ShedStopping() uint64 {
	return atomic.LoadUint64((*uint64)(unsafe.Add(p.base, 136)))
}

// ShedBudget: no reply inside the sender's budget
func (p SourceCounters) ShedBudget() uint64 {
	return atomic.LoadUint64((*uint64)(unsafe.Add(p.base, 144)))
}

// ShedClass is the word of that name.
func (p SourceCounters) ShedClass() uint64 {
	return atomic.LoadUint64((*uint64)(unsafe.Add(p.base, 152)))
}

// AckCount is the word of that name.
func (p SourceCounters) AckCount() uint64 {
	return atomic.LoadUint64((*uint64)(unsafe.Add(p.base, 160)))
}

// AckSumNS is the word of that name.
func (p SourceCounters) AckSumNS() uint64 {
	return atomic.LoadUint64((*uint64)(unsafe.Add(p.base, 168)))
}

// HoldCount is the word of that name.
func (p SourceCounters) HoldCount() uint64 {
	return atomic.LoadUint64((*uint64)(unsafe.Add(p.base, 176)))
}

// HoldSumNS is the word of that name.
func (p SourceCounters) HoldSumNS() uint64 {
	return atomic.LoadUint64((*uint64)(unsafe.Add(p.base, 184)))
}

// AckBucket: LATENCY_BUCKETS: upper bounds 64 µs × 2^i
func (p SourceCounters) AckBucket(i int) uint64 {
	_ = [24]struct{}{}[i]
	return atomic.LoadUint64((*uint64)(unsafe.Add(p.base, 192+8*i)))
}

// HoldBucket: HOLD_BUCKETS: upper bounds 1 ms × 2^i
func (p SourceCounters) HoldBucket(i int) uint64 {
	_ = [16]struct{}{}[i]
	return atomic.LoadUint64((*uint64)(unsafe.Add(p.base, 384+8*i)))
}

// Offered: asked for a slot
func (p SourceCounters) Offered() uint64 {
	return atomic.LoadUint64((*uint64)(unsafe.Add(p.base, 512)))
}

// OverShare: of these: beyond the source's share
func (p SourceCounters) OverShare() uint64 {
	return atomic.LoadUint64((*uint64)(unsafe.Add(p.base, 520)))
}

// Repeats: of these: seen before
func (p SourceCounters) Repeats() uint64 {
	return atomic.LoadUint64((*uint64)(unsafe.Add(p.base, 528)))
}

// Floored: admitted by the floor
func (p SourceCounters) Floored() uint64 {
	return atomic.LoadUint64((*uint64)(unsafe.Add(p.base, 536)))
}

// SourceStateSize is the size of a SourceState in bytes.
const SourceStateSize = 64

// Where the fields of a SourceState are.
const (
	SourceStateRefusedInRowOffset  = 0
	SourceStateLastSuccessNSOffset = 8
	SourceStateGuardedOffset       = 16
)

type shapeOfSourceState struct {
	refusedInRow  uint64
	lastSuccessNS uint64
	guarded       uint64
	_             [40]byte
}

var (
	_ [64]byte = [unsafe.Sizeof(shapeOfSourceState{})]byte{}
	_ [0]byte  = [unsafe.Offsetof(shapeOfSourceState{}.refusedInRow)]byte{}
	_ [8]byte  = [unsafe.Offsetof(shapeOfSourceState{}.lastSuccessNS)]byte{}
	_ [16]byte = [unsafe.Offsetof(shapeOfSourceState{}.guarded)]byte{}
)

// SourceState: One per source slot, of all workers; written now and then.
// A view of mapped memory; it owns nothing. Every load is one atomic load.
type SourceState struct{ base unsafe.Pointer }

// ViewSourceState looks at the first SourceStateSize bytes of a mapping, which start on 8.
func ViewSourceState(mapped []byte) SourceState {
	_ = mapped[63]
	return SourceState{unsafe.Pointer(&mapped[0])}
}

// RefusedInRow: refusals since the last success
func (p SourceState) RefusedInRow() uint64 {
	return atomic.LoadUint64((*uint64)(unsafe.Add(p.base, 0)))
}

// LastSuccessNS: boot clock; 0: none yet
func (p SourceState) LastSuccessNS() uint64 {
	return atomic.LoadUint64((*uint64)(unsafe.Add(p.base, 8)))
}

// Guarded: 1: near its provider's threshold, and so of class High
func (p SourceState) Guarded() uint64 { return atomic.LoadUint64((*uint64)(unsafe.Add(p.base, 16))) }

// RefusedSize is the size of a Refused in bytes.
const RefusedSize = 128

// Where the fields of a Refused are.
const (
	RefusedAtNSOffset      = 0
	RefusedSourceIDOffset  = 8
	RefusedReasonOffset    = 12
	RefusedLengthOffset    = 14
	RefusedReservedOffset  = 16
	RefusedReserved2Offset = 24
	RefusedIDOffset        = 32
)

type shapeOfRefused struct {
	atNS      uint64
	sourceID  uint32
	reason    uint16
	length    uint16
	reserved  uint64
	reserved2 uint64
	id        [96]byte
}

var (
	_ [128]byte = [unsafe.Sizeof(shapeOfRefused{})]byte{}
	_ [0]byte   = [unsafe.Offsetof(shapeOfRefused{}.atNS)]byte{}
	_ [8]byte   = [unsafe.Offsetof(shapeOfRefused{}.sourceID)]byte{}
	_ [12]byte  = [unsafe.Offsetof(shapeOfRefused{}.reason)]byte{}
	_ [14]byte  = [unsafe.Offsetof(shapeOfRefused{}.length)]byte{}
	_ [16]byte  = [unsafe.Offsetof(shapeOfRefused{}.reserved)]byte{}
	_ [24]byte  = [unsafe.Offsetof(shapeOfRefused{}.reserved2)]byte{}
	_ [32]byte  = [unsafe.Offsetof(shapeOfRefused{}.id)]byte{}
)

// Refused: The sender's own id of a request that was turned away. Entry n of a worker lies in place n modulo
// REFUSED_ENTRIES of its ring; refused_entries counts it once it is whole.
// A view of RefusedSize bytes; it owns nothing.
type Refused []byte

// AtNS: wall clock
func (l Refused) AtNS() uint64 { return binary.LittleEndian.Uint64(l[0:8]) }

// SourceID is the field of that name.
func (l Refused) SourceID() uint32 { return binary.LittleEndian.Uint32(l[8:12]) }

// Reason: SHED
func (l Refused) Reason() uint16 { return binary.LittleEndian.Uint16(l[12:14]) }

// Length: of id, at most REFUSED_ID_BYTES; longer ids are cut
func (l Refused) Length() uint16 { return binary.LittleEndian.Uint16(l[14:16]) }

// Reserved2 is the field of that name.
func (l Refused) Reserved2() uint64 { return binary.LittleEndian.Uint64(l[24:32]) }

// ID is the field of that name.
func (l Refused) ID() [96]byte { return [96]byte(l[32:128]) }
