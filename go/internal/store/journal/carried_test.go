package journal

import (
	"reflect"
	"testing"

	"sluice/go/internal/event"
	"sluice/shm-abi/shmabi"
)

func carriedFrame(payload []byte) *Frame {
	f := shmabi.BuildRecord(KindCarried, payload)
	return &Frame{Kind: KindCarried, Bytes: f}
}

func TestWhatIsCarriedComesBackAsItWas(t *testing.T) {
	want := &Carried{Last: 7, Horizon: 1 << 60}
	for i := range 5 {
		want.Keys = append(want.Keys, CarriedKey{
			Source: uint32(i), Until: int64(i) << 33, Seq: event.NewSeq(3, i),
			Key: [16]byte{1, byte(i)}, First: event.ID{2, 3},
		})
	}
	want.Repeats = []CarriedRepeat{{Seq: event.NewSeq(9, 3), First: event.ID{8}}}
	for _, c := range []*Carried{want, {Last: 1}} {
		got, err := carriedFrame(c.encode()).Carried()
		if err != nil || !reflect.DeepEqual(got, c) {
			t.Errorf("%+v comes back as %+v, %v", c, got, err)
		}
		if size := (&Batch{Carried: c}).Size(); size != int64(len(carriedFrame(c.encode()).Bytes)) {
			t.Errorf("%+v takes %d bytes", c, size)
		}
	}
	text := want.encode()
	for n := range len(text) / shmabi.LineSize {
		if _, err := carriedFrame(text[:n*shmabi.LineSize]).Carried(); err == nil {
			t.Errorf("the first %d bytes of %d pass", n*shmabi.LineSize, len(text))
		}
	}
}
