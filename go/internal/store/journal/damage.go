package journal

import "fmt"

// DamageKind says what is wrong with acknowledged bytes.
type DamageKind uint8

// The kinds of damage.
const (
	DamageFrame     DamageKind = 1 + iota // one frame's payload fails its checksum
	DamageGroups                          // a stretch of a segment holds no valid group but should
	DamageSegment                         // a living segment is missing or not what the table says
	DamageTail                            // a witness knows of later groups than the disk holds
	DamageDuplicate                       // two files claim one segment number
	DamageIdentity                        // the JOURNAL file is lost or unreadable
)

func (k DamageKind) String() string {
	switch k {
	case DamageFrame:
		return "frame"
	case DamageGroups:
		return "groups"
	case DamageSegment:
		return "segment"
	case DamageTail:
		return "tail"
	case DamageDuplicate:
		return "duplicate"
	case DamageIdentity:
		return "identity"
	}
	return fmt.Sprintf("damage(%d)", uint8(k))
}

// Damage names acknowledged bytes that cannot be read any more. The file is kept for good.
type Damage struct {
	Kind                  DamageKind
	File                  string // name in the directory; "" when it is missing
	Segment               uint64 // 0: unknown
	Offset, Length        int64
	FirstGroup, LastGroup uint64 // groups that are lost, or the group of the lost frame
	Detail                string
}

func (d Damage) String() string {
	return fmt.Sprintf("%s: segment %d, file %q, bytes [%d, %d), groups %d to %d: %s",
		d.Kind, d.Segment, d.File, d.Offset, d.Offset+d.Length, d.FirstGroup, d.LastGroup, d.Detail)
}

// Torn is the group that a power cut interrupted. Nobody was told that it is stored.
type Torn struct {
	File    string
	Segment uint64
	Offset  int64
	Group   uint64
}
