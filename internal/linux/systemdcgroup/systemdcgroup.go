package systemdcgroup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path"
	"strconv"
	"strings"
	"sync"
	"time"

	systemd "github.com/coreos/go-systemd/v22/dbus"
	"github.com/godbus/dbus/v5"

	"github.com/gantry-project/gantry/internal/linux/cgroup"
)

// jobTimeout bounds a job of systemd's; creating a slice takes milliseconds, stopping one as long
// as its processes.
const jobTimeout = 30 * time.Second

// Options say how to reach systemd.
type Options struct {
	Address string // of a bus that systemd is on; empty: the system bus, then /run/systemd/private
	Unified bool   // cgroup v2, whose properties have other names
}

// Manager manages slices through systemd. It is safe for concurrent use; a broken connection is
// re-established.
type Manager struct {
	opts Options
	mu   sync.Mutex
	conn *systemd.Conn
}

// Dial connects. It returns an error if systemd cannot be reached.
func Dial(o Options) (*Manager, error) {
	m := &Manager{opts: o}
	if _, err := m.connection(); err != nil {
		return nil, err
	}
	return m, nil
}

// Close closes the connection; slices stay.
func (m *Manager) Close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.conn != nil {
		m.conn.Close()
		m.conn = nil
	}
}

func (m *Manager) connection() (*systemd.Conn, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.conn != nil && m.conn.Connected() {
		return m.conn, nil
	}
	var err error
	if m.opts.Address == "" {
		// the context would end the connection, not only the dialing
		m.conn, err = systemd.NewWithContext(context.Background())
	} else {
		m.conn, err = systemd.NewConnection(m.dial)
	}
	if err != nil {
		m.conn = nil
		return nil, fmt.Errorf("systemd does not answer over D-Bus: %w", err)
	}
	return m.conn, nil
}

// withConnection calls call with the connection, and again with a new one if the first turned out
// to be broken; calls are idempotent.
func (m *Manager) withConnection(call func(*systemd.Conn) error) error {
	conn, err := m.connection()
	if err != nil {
		return err
	}
	if err = call(conn); !isDisconnected(err) {
		return err
	}
	m.mu.Lock()
	if m.conn == conn { // its reader may not have noticed yet
		m.conn.Close()
		m.conn = nil
	}
	m.mu.Unlock()
	if conn, err = m.connection(); err != nil {
		return err
	}
	return call(conn)
}

// isDisconnected reports whether err is about the connection, not an answer.
func isDisconnected(err error) bool {
	var socket *net.OpError
	return errors.Is(err, dbus.ErrClosed) || errors.Is(err, io.EOF) || errors.As(err, &socket)
}

func (m *Manager) dial() (*dbus.Conn, error) {
	conn, err := dbus.Dial(m.opts.Address)
	if err != nil {
		return nil, err
	}
	if err = conn.Auth([]dbus.Auth{dbus.AuthExternal(strconv.Itoa(os.Getuid()))}); err == nil && !strings.HasSuffix(
		m.opts.Address, "/systemd/private") {
		err = conn.Hello() // systemd's private socket is not a bus and has no Hello
	}
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	return conn, nil
}

// Ensure creates the slice at the path's end with its parents, or sets the values of an existing
// one.
func (m *Manager) Ensure(p string, v cgroup.Values) error {
	name, err := unitName(p)
	if err != nil {
		return err
	}
	return m.withConnection(func(conn *systemd.Conn) error { return m.ensure(conn, name, v) })
}

func (m *Manager) ensure(conn *systemd.Conn, name string, v cgroup.Values) error {
	ctx, cancel := context.WithTimeout(context.Background(), jobTimeout)
	defer cancel()
	values := m.properties(v)
	done := make(chan string, 1)
	_, err := conn.StartTransientUnitContext(ctx, name, "replace", append(creationProperties(name, m.opts.Unified),
		values...), done)
	if isDBusError(err, "org.freedesktop.systemd1.UnitExists") {
		if len(values) == 0 {
			return nil
		}
		err = conn.SetUnitPropertiesContext(ctx, name, true, values...)
		done <- "done"
	}
	if err != nil {
		return fmt.Errorf("slice %s: %w", name, err)
	}
	return awaitJob(ctx, name, done)
}

// Remove stops the slice with everything in it. It succeeds if there is none.
func (m *Manager) Remove(p string) error {
	name, err := unitName(p)
	if err != nil {
		return err
	}
	return m.withConnection(func(conn *systemd.Conn) error { return remove(conn, name) })
}

func remove(conn *systemd.Conn, name string) error {
	ctx, cancel := context.WithTimeout(context.Background(), jobTimeout)
	defer cancel()
	done := make(chan string, 1)
	_, err := conn.StopUnitContext(ctx, name, "replace", done)
	if isDBusError(err, "org.freedesktop.systemd1.NoSuchUnit") {
		return nil
	}
	if err == nil {
		err = awaitJob(ctx, name, done)
	}
	if err != nil {
		_ = conn.ResetFailedUnitContext(ctx, name) // otherwise a Pod of the same uid could not create its slice
		return fmt.Errorf("stopping slice %s: %w", name, err)
	}
	return nil
}

func awaitJob(ctx context.Context, name string, done <-chan string) error {
	select {
	case result := <-done:
		if result != "done" {
			return fmt.Errorf("slice %s: systemd's job ended with %q: see journalctl -u %s", name, result, name)
		}
		return nil
	case <-ctx.Done():
		return fmt.Errorf("slice %s: systemd's job has not ended within %s", name, jobTimeout)
	}
}

func isDBusError(err error, name string) bool {
	var e dbus.Error
	return errors.As(err, &e) && e.Name == name
}

// unitName returns the unit name of the slice at a path; the path must agree with the name's
// parents.
func unitName(p string) (string, error) {
	name := path.Base(p)
	stem, ok := strings.CutSuffix(name, ".slice")
	if !ok || stem == "" || stem == "-" {
		return "", fmt.Errorf("cgroup %s: the systemd driver has slices only, whose names end with .slice", p)
	}
	if parent := parentOf(name); path.Base(path.Dir(path.Clean("/"+p))) != parent && parent != "-.slice" {
		return "", fmt.Errorf("cgroup %s: systemd puts %s below %s", p, name, parent)
	}
	return name, nil
}

// parentOf returns a slice's parent: its name up to the last dash. systemd.slice(5)
func parentOf(name string) string {
	stem := strings.TrimSuffix(name, ".slice")
	if i := strings.LastIndexByte(stem, '-'); i > 0 {
		return stem[:i] + ".slice"
	}
	return "-.slice"
}
