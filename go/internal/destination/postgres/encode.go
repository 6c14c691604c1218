package postgres

import (
	"encoding/binary"
	"sync"
	"time"
)

// Types of array elements, by the numbers that Postgres has for them (pg_type.dat).
const (
	byteaType       = 17
	int8Type        = 20
	int4Type        = 23
	textType        = 25
	timestamptzType = 1184
)

// epoch is where a timestamptz counts its microseconds from.
var epoch = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro()

// parameters are those of one statement, one array for each column, in the binary form: for each
// array the number of dimensions, whether it has nulls, the type, length and first index of its
// elements, and then each element behind its length. The memory is used again for the next
// statement.
type parameters struct {
	buffer []byte
	values [][]byte
}

// statements keeps parameters between workers.
var statements = sync.Pool{New: func() any { return new(parameters) }}

// keptParametersMax is the largest buffer that is kept.
const keptParametersMax = 4 << 20

// formats says that a parameter is binary, and that all are if it is the only one.
var formats = []int16{1}

// encode gives the columns of a batch, which are valid until the next call.
func (p *parameters) encode(batch []*waiter) [][]byte {
	if cap(p.buffer) > keptParametersMax {
		p.buffer = nil
	}
	p.buffer = p.buffer[:0]
	var ends [9]int
	for i := range ends {
		p.column(i, batch)
		ends[i] = len(p.buffer)
	}
	p.values = p.values[:0]
	start := 0
	for _, end := range ends {
		p.values = append(p.values, p.buffer[start:end:end])
		start = end
	}
	return p.values
}

// column appends the i-th column of the statement.
func (p *parameters) column(i int, batch []*waiter) {
	switch i {
	case 0:
		p.array(textType, batch, func(r *row) { p.text(r.id.String()) })
	case 1:
		p.array(textType, batch, func(r *row) { p.text(r.source) })
	case 2:
		p.array(timestamptzType, batch, func(r *row) {
			p.number64(time.Unix(0, r.received).UnixMicro() - epoch)
		})
	case 3:
		p.array(textType, batch, func(r *row) { p.text(r.method) })
	case 4:
		p.array(textType, batch, func(r *row) { p.text(r.target) })
	case 5:
		p.array(textType, batch, func(r *row) { p.bytes(r.headers) })
	case 6:
		p.array(byteaType, batch, func(r *row) { p.bytes(r.body) })
	case 7:
		p.array(int8Type, batch, func(r *row) {
			if r.orderKey == 0 {
				p.number32(-1) // null
				return
			}
			p.number64(int64(r.orderKey)) // the same bits
		})
	case 8:
		p.array(int4Type, batch, func(r *row) {
			p.number32(4)
			p.number32(r.attempt)
		})
	}
}

func (p *parameters) array(kind int32, batch []*waiter, element func(*row)) {
	for _, n := range []int32{1, 1, kind, int32(len(batch)), 1} {
		p.number32(n)
	}
	for _, w := range batch {
		element(&w.row)
	}
}

func (p *parameters) text(s string) {
	p.number32(int32(len(s)))
	p.buffer = append(p.buffer, s...)
}

func (p *parameters) bytes(b []byte) {
	p.number32(int32(len(b)))
	p.buffer = append(p.buffer, b...)
}

func (p *parameters) number64(n int64) {
	p.number32(8)
	p.buffer = binary.BigEndian.AppendUint64(p.buffer, uint64(n))
}

func (p *parameters) number32(n int32) {
	p.buffer = binary.BigEndian.AppendUint32(p.buffer, uint32(n))
}
