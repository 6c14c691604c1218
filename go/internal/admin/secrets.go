package admin

import (
	"time"

	pb "sluice/proto/sluice/v1"
)

// Secret is one secret of a source, without a word of what it is.
type Secret struct {
	Origin              string
	KeyID, Role         string
	NotBefore, NotAfter time.Time // zero: no bound
	Verified            uint64    // events that it has proved since the start
	LastUsed            time.Time // zero: not since the start
}

func secretStatuses(secrets []Secret) (list []*pb.SecretStatus) {
	for _, s := range secrets {
		list = append(list, &pb.SecretStatus{
			Origin: s.Origin, KeyId: s.KeyID, Role: s.Role, NotBeforeNs: unixNano(s.NotBefore),
			NotAfterNs: unixNano(s.NotAfter), Verified: s.Verified, LastUsedNs: unixNano(s.LastUsed),
		})
	}
	return list
}
