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

// replyTimeout is how long to wait for the kernel's answer. The kernel answers before send returns,
// so it is only reached if the answer was lost for lack of memory.
const replyTimeout = 5 * time.Second

// Conn is the netlink connection that tables share: one socket for requests and one for
// notifications. Sharing lets the kernel filter out the notifications of our own changes, whichever
// table made them. The zero value is ready. Only one goroutine at a time may make requests of any
// of its tables; listening is independent of that.
type Conn struct {
	nl         *netlink.Conn // nil: not open
	sendBuffer int           // send buffer of nl in bytes
	// bytes is the reused buffer of the batch; sequence is the next batch's number.
	bytes    []byte
	sequence uint32

	mu         sync.Mutex
	listenConn *netlink.Conn // may be nil
	listenPort uint32        // nl's port id; notifications of its changes are filtered out
	listeners  map[*Table]*listener
}

// Table is one nftables table over netlink.
type Table struct {
	*Conn
	family   rules.Family
	name     string
	setTypes map[string]setType // of the frame's sets, by name
}

// Open returns a table without asking the kernel. Sockets are opened later, in the network
// namespace of the thread that first needs them.
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

// Close closes the request socket; the next request opens it again.
func (l *Conn) Close() {
	if l.nl != nil {
		_ = l.nl.Close()
		l.nl = nil
	}
}

// byteFamily returns the number of the address family.
func (t *Table) byteFamily() byte {
	if t.family == rules.IPv4 {
		return unix.NFPROTO_IPV4
	}
	return unix.NFPROTO_IPV6
}

// dial returns the request socket and opens it if necessary.
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

// reset closes the socket and returns err: unread answers must not be taken for those of the next
// request.
func (l *Conn) reset(err error) error {
	l.Close()
	var op *netlink.OpError
	if errors.As(err, &op) && op.Message != "" {
		return fmt.Errorf("%w: %s", op.Err, op.Message)
	}
	return err
}

// defaultSendBuffer is Linux's default send buffer in bytes.
const defaultSendBuffer = 200 << 10

// Send runs operations as one batch: with an error none is applied. ErrUnknown means that nothing
// was sent.
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
	// Only the last operation is acknowledged; errors of earlier ones arrive before it.
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

// maxRetainedBuffer is the largest batch buffer, in bytes, that is kept for reuse.
const maxRetainedBuffer = 1 << 20

// write sends b as it is; the library would copy each message twice.
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

// request sends one request and returns the answers. It resets the socket on errors.
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

// message returns an nf_tables message.
func message(kind uint16, flags netlink.HeaderFlags, family byte, attrs []byte) netlink.Message {
	return netlink.Message{Header: netlink.Header{Type: netlink.HeaderType(unix.NFNL_SUBSYS_NFTABLES<<8 | kind),
		Flags: flags}, Data: append([]byte{family, 0, 0, 0}, attrs...)}
}
