package admin

import (
	"strings"

	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// legible encodes what is sent. A sender's id, a request's target or a destination's error may hold
// bytes that are no text, which a string of a message must not (proto3 wants UTF-8): they are shown
// as U+FFFD, where a message would otherwise take all that is listed beside it with it.
type legible struct{ encoding.CodecV2 }

func newLegible() legible { return legible{encoding.GetCodecV2(proto.Name)} }

// Marshal changes the message only where it could not be encoded.
func (c legible) Marshal(v any) (mem.BufferSlice, error) {
	data, err := c.CodecV2.Marshal(v)
	if m, ok := v.(protoreflect.ProtoMessage); ok && err != nil {
		makeLegible(m.ProtoReflect())
		return c.CodecV2.Marshal(v)
	}
	return data, err
}

func makeLegible(m protoreflect.Message) {
	m.Range(func(field protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		text, message := field.Kind() == protoreflect.StringKind, field.Message() != nil
		switch {
		case field.IsMap(): // no message of ours has one
		case field.IsList():
			list := m.Mutable(field).List()
			for i := range list.Len() {
				if text {
					list.Set(i, legibleText(list.Get(i)))
				} else if message {
					makeLegible(list.Get(i).Message())
				}
			}
		case text:
			m.Set(field, legibleText(v))
		case message:
			makeLegible(v.Message())
		}
		return true
	})
}

func legibleText(v protoreflect.Value) protoreflect.Value {
	return protoreflect.ValueOfString(strings.ToValidUTF8(v.String(), "\uFFFD"))
}
