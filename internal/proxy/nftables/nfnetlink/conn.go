package nfnetlink

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/gantry-project/gantry/internal/proxy/rules"
)

// replyTimeout is how long an answer of the kernel may take; it answers before a send returns, so
// that nothing is lost unless memory is short.
const replyTimeout = 5 * time.Second

// Conn is a way to the kernel that tables share: one socket for requests and one to hear by, so
// that what one of them does is no news to any of them and cannot drown what others do. The zero
// value is ready. Requests of all its tables may be made by one goroutine at a time.
type Conn struct {
	nl         *netlink.Conn // nil: to be opened
	sendBuffer int           // of nl, for one batch, in bytes
	// bytes is room for batches, of which there is one at a time; sequence is the next one's
	// number.
	bytes    []byte
	sequence uint32

	mu         sync.Mutex
	listenConn *netlink.Conn // nil: nobody listens
	listenPort uint32        // nl's port: what it does is not reported
	listeners  map[*Table]*listener
}

// Table is one table, seen over netlink.
type Table struct {
	*Conn
	family   rules.Family
	name     string
	setTypes map[string]setType // of the frame, by name
}

// Open prepares a table; nothing is asked of the kernel. The network namespace is that of the
// thread of each later call's first need.
func Open(line *Conn, family rules.Family, name string, frame rules.TableFrame) (*Table, error) {
	t := &Table{Conn: line, family: family, name: name, setTypes: map[string]setType{}}
	for _, d := range frame.Sets {
		k, err := parseSetType(d)
		if err != nil {
			return nil, err
		}
		t.setTypes[d.Name] = k
	}
	return t, nil
}

// Close lets go of the socket for requests; the next request opens it anew.
func (l *Conn) Close() {
	if l.nl != nil {
		_ = l.nl.Close()
		l.nl = nil
	}
}

// byteFamily is the family's number.
func (t *Table) byteFamily() byte {
	if t.family == rules.IPv4 {
		return unix.NFPROTO_IPV4
	}
	return unix.NFPROTO_IPV6
}

// dial gives the socket for requests.
func (l *Conn) dial() (*netlink.Conn, error) {
	if l.nl != nil {
		return l.nl, nil
	}
	nl, err := netlink.Dial(unix.NETLINK_NETFILTER, nil)
	if err != nil {
		return nil, fmt.Errorf("netlink: %w", err)
	}
	l.nl, l.sendBuffer = nl, 0
	l.mu.Lock()
	defer l.mu.Unlock()
	l.listenPort = nl.PID()
	if l.listenConn != nil {
		err = filterOwnPort(l.listenConn, l.listenPort)
	}
	return nl, err
}

// reset drops the socket: answers that nobody read must not be taken for those of the next request.
func (l *Conn) reset(err error) error {
	l.Close()
	var op *netlink.OpError
	if errors.As(err, &op) && op.Message != "" {
		return fmt.Errorf("%w: %s", op.Err, op.Message)
	}
	return err
}

// defaultSendBuffer is a socket's room for sending as Linux has it.
const defaultSendBuffer = 200 << 10

// Send carries operations out as one batch: all of them or, with an error, none. ErrUnknown means
// that nothing was sent.
func (t *Table) Send(ops []rules.Op) error {
	if len(ops) == 0 {
		return nil
	}
	b := &batch{table: t, bytes: t.bytes[:0], sequence: t.sequence}
	t.sequence += 2
	b.begin()
	for _, op := range ops {
		if err := b.addOp(op); err != nil {
			return fmt.Errorf("%s %s: %w", op.Verb, op.Name, err)
		}
	}
	b.end()
	if t.bytes = b.bytes; cap(t.bytes) > maxRetainedBuffer {
		t.bytes = nil
	}
	nl, err := t.dial()
	if err != nil {
		return err
	}
	if len(b.bytes) > max(defaultSendBuffer, t.sendBuffer) {
		if err := nl.SetWriteBuffer(len(b.bytes) * 2); err != nil {
			return t.reset(err)
		}
		t.sendBuffer = len(b.bytes)
	}
	if err := nl.SetDeadline(time.Now().Add(replyTimeout)); err != nil {
		return t.reset(err)
	}
	if err := write(nl, b.bytes); err != nil {
		return t.reset(err)
	}
	// Only the last operation is acknowledged; refusals of others come before it.
	for {
		got, err := nl.Receive()
		if err != nil {
			return t.reset(err)
		}
		for _, m := range got {
			if m.Header.Type == netlink.Error && m.Header.Sequence == b.sequence+1 {
				return nil
			}
		}
	}
}

// maxRetainedBuffer is up to how many bytes the room for a batch is kept for the next.
const maxRetainedBuffer = 1 << 20

// write sends bytes as they are: the library copies each message twice.
func write(nl *netlink.Conn, b []byte) error {
	raw, err := nl.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	if err := raw.Write(func(fd uintptr) bool {
		failed = unix.Sendto(int(fd), b, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK})
		return failed != unix.EAGAIN
	}); err != nil {
		return err
	}
	return failed
}

// request sends one request and returns the answers.
func (t *Table) request(kind uint16, flags netlink.HeaderFlags, attrs []byte) ([]netlink.Message, error) {
	nl, err := t.dial()
	if err != nil {
		return nil, err
	}
	if err := nl.SetDeadline(time.Now().Add(replyTimeout)); err != nil {
		return nil, t.reset(err)
	}
	got, err := nl.Execute(message(kind, netlink.Request|flags, t.byteFamily(), attrs))
	if err != nil {
		return nil, t.reset(err)
	}
	return got, nil
}

// message is one of nf_tables.
func message(kind uint16, flags netlink.HeaderFlags, family byte, attrs []byte) netlink.Message {
	return netlink.Message{Header: netlink.Header{Type: netlink.HeaderType(unix.NFNL_SUBSYS_NFTABLES<<8 | kind),
		Flags: flags}, Data: append([]byte{family, 0, 0, 0}, attrs...)}
}
