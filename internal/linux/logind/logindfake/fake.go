package logindfake

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"github.com/godbus/dbus/v5"
)

// Service is a bus with a login service.
type Service struct {
	Address string
	OnLoad  func(s *Service) // called when the settings are to be reloaded
	// Other answers calls that the login service does not know; a *dbus.Error keeps its name.
	Other func(member string, args []any) ([]any, error)

	listener *net.UnixListener
	wg       sync.WaitGroup

	mu        sync.Mutex
	conns     map[*net.UnixConn]bool
	delay     uint64 // µs
	preparing bool
	locks     int
	taken     int
	changed   chan struct{} // closed and replaced whenever locks change
}

// Start serves on a socket in dir.
func Start(dir string) (*Service, error) {
	path := filepath.Join(dir, "bus")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, err
	}
	s := &Service{Address: "unix:path=" + path, listener: l, conns: map[*net.UnixConn]bool{}, delay: 5_000_000,
		changed: make(chan struct{})}
	s.wg.Add(1)
	go func() {
		defer s.wg.Done()
		for {
			c, err := l.AcceptUnix()
			if err != nil {
				return
			}
			s.mu.Lock()
			s.conns[c] = true
			s.mu.Unlock()
			s.wg.Add(1)
			go func() {
				defer s.wg.Done()
				defer s.forget(c)
				_ = s.serve(c) // ends with the connection
			}()
		}
	}()
	return s, nil
}

// Close closes everything.
func (s *Service) Close() {
	_ = s.listener.Close()
	s.DropConnections()
	s.wg.Wait()
}

// DropConnections cuts all connections.
func (s *Service) DropConnections() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		_ = c.Close()
	}
}

func (s *Service) forget(c *net.UnixConn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
	_ = c.Close()
}

// SetDelay sets InhibitDelayMaxUSec.
func (s *Service) SetDelay(us uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.delay = us
}

// EmitPrepareForShutdown signals that a shutdown begins or is cancelled.
func (s *Service) EmitPrepareForShutdown(active bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.preparing = active
	return s.emit("/org/freedesktop/login1", "org.freedesktop.login1.Manager", "PrepareForShutdown", active)
}

// Emit sends a signal to all that are connected.
func (s *Service) Emit(path dbus.ObjectPath, iface, member string, body ...any) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.emit(path, iface, member, body...)
}

func (s *Service) emit(path dbus.ObjectPath, iface, member string, body ...any) error {
	var errs []error
	for c := range s.conns {
		err := send(c, &dbus.Message{
			Type: dbus.TypeSignal,
			Headers: map[dbus.HeaderField]dbus.Variant{
				dbus.FieldPath: dbus.MakeVariant(path), dbus.FieldInterface: dbus.MakeVariant(iface),
				dbus.FieldMember: dbus.MakeVariant(member), dbus.FieldSender: dbus.MakeVariant(":1.1"),
				dbus.FieldSignature: dbus.MakeVariant(dbus.SignatureOf(body...)),
			},
			Body: body,
		})
		if !errors.Is(err, net.ErrClosed) { // a dropped connection gets nothing
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// Locks returns how many locks are held and were ever taken; changed is closed when a number
// changes.
func (s *Service) Locks() (held, taken int, changed <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.locks, s.taken, s.changed
}

func (s *Service) count(by int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.locks += by
	if by > 0 {
		s.taken += by
	}
	close(s.changed)
	s.changed = make(chan struct{})
}

// serve authenticates and answers calls.
func (s *Service) serve(c *net.UnixConn) error {
	in := bufio.NewReader(c)
	if _, err := in.ReadByte(); err != nil { // the nul byte
		return err
	}
	for active := false; !active; {
		line, err := in.ReadString('\n')
		if err != nil {
			return err
		}
		answer := ""
		switch f := strings.Fields(line); {
		case len(f) == 1 && f[0] == "AUTH":
			answer = "REJECTED EXTERNAL"
		case len(f) > 1 && f[0] == "AUTH":
			answer = "OK 0123456789abcdef0123456789abcdef"
		case len(f) == 1 && f[0] == "NEGOTIATE_UNIX_FD":
			answer = "AGREE_UNIX_FD"
		case len(f) == 1 && f[0] == "BEGIN":
			active = true
			continue
		default:
			answer = "ERROR"
		}
		if _, err := io.WriteString(c, answer+"\r\n"); err != nil {
			return err
		}
	}
	for {
		m, err := dbus.DecodeMessage(in)
		if err != nil {
			return err
		}
		if m.Type != dbus.TypeMethodCall {
			continue
		}
		body, err := s.answer(m)
		s.mu.Lock()
		err = send(c, reply(m, body, err))
		s.mu.Unlock()
		for _, v := range body {
			if fd, ok := v.(dbus.UnixFD); ok {
				_ = syscall.Close(int(fd)) // the other side has its own now
			}
		}
		if err != nil {
			return err
		}
	}
}

func reply(m *dbus.Message, body []any, err error) *dbus.Message {
	out := &dbus.Message{Type: dbus.TypeMethodReply,
		Headers: map[dbus.HeaderField]dbus.Variant{dbus.FieldReplySerial: dbus.MakeVariant(m.Serial())}, Body: body}
	if err != nil {
		out.Type, out.Body = dbus.TypeError, []any{err.Error()}
		name := "org.freedesktop.DBus.Error.Failed"
		if named := (*dbus.Error)(nil); errors.As(err, &named) {
			name = named.Name
		}
		out.Headers[dbus.FieldErrorName] = dbus.MakeVariant(name)
	}
	if len(out.Body) > 0 {
		out.Headers[dbus.FieldSignature] = dbus.MakeVariant(dbus.SignatureOf(out.Body...))
	}
	fds, _ := out.CountFds()
	if fds > 0 {
		out.Headers[dbus.FieldUnixFDs] = dbus.MakeVariant(uint32(fds))
	}
	return out
}

func (s *Service) answer(m *dbus.Message) ([]any, error) {
	member, _ := m.Headers[dbus.FieldMember].Value().(string)
	switch member {
	case "Hello":
		return []any{":1.7"}, nil
	case "AddMatch", "RemoveMatch":
		return nil, nil
	case "KillUnit":
		if s.OnLoad != nil {
			s.OnLoad(s)
		}
		return nil, nil
	case "Get":
		s.mu.Lock()
		defer s.mu.Unlock()
		switch m.Body[1] {
		case "InhibitDelayMaxUSec":
			return []any{dbus.MakeVariant(s.delay)}, nil
		case "PreparingForShutdown":
			return []any{dbus.MakeVariant(s.preparing)}, nil
		}
		return nil, fmt.Errorf("no property %v", m.Body[1])
	case "Inhibit":
		return s.inhibit(m.Body)
	}
	if s.Other != nil {
		return s.Other(member, m.Body)
	}
	return nil, fmt.Errorf("no method %s", member)
}

// inhibit returns one end of a pipe; the lock is released when it is closed.
func (s *Service) inhibit(args []any) ([]any, error) {
	if fmt.Sprint(args) != "[shutdown kubelet Kubelet needs time to handle node shutdown delay]" {
		return nil, fmt.Errorf("unexpected arguments %v", args)
	}
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	fd, err := syscall.Dup(int(w.Fd()))
	_ = w.Close()
	if err != nil {
		_ = r.Close()
		return nil, err
	}
	s.count(1)
	s.wg.Add(1)
	go func() {
		defer s.wg.Done()
		defer r.Close()
		_, _ = io.Copy(io.Discard, r)
		s.count(-1)
	}()
	return []any{dbus.UnixFD(fd)}, nil
}

func send(c *net.UnixConn, m *dbus.Message) error {
	var raw bytes.Buffer
	fds, err := m.EncodeToWithFDs(&raw, binary.LittleEndian)
	if err != nil {
		return err
	}
	var rights []byte
	if len(fds) > 0 {
		rights = syscall.UnixRights(fds...)
	}
	_, _, err = c.WriteMsgUnix(raw.Bytes(), rights, nil)
	return err
}
