package logind

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/godbus/dbus/v5"
)

const (
	login         = "org.freedesktop.login1"
	manager       = login + ".Manager"
	systemd       = "org.freedesktop.systemd1"
	prepareSignal = "PrepareForShutdown"

	loginPath   = dbus.ObjectPath("/org/freedesktop/login1")
	systemdPath = dbus.ObjectPath("/org/freedesktop/systemd1")
)

// Options say where the service is.
type Options struct {
	Address string // of the bus; empty: DBUS_SYSTEM_BUS_ADDRESS, then unix:path=/run/dbus/system_bus_socket
	ConfDir string // of the service's settings; /etc/systemd/logind.conf.d when empty
}

func (o Options) address() string {
	if o.Address != "" {
		return o.Address
	}
	if a := os.Getenv("DBUS_SYSTEM_BUS_ADDRESS"); a != "" {
		return a
	}
	return "unix:path=/run/dbus/system_bus_socket"
}

// Session is a connection to the service.
type Session struct {
	opts Options
	conn *dbus.Conn
	once sync.Once
}

// Dial connects.
func Dial(ctx context.Context, o Options) (*Session, error) {
	conn, err := dbus.Connect(o.address(), dbus.WithContext(context.WithoutCancel(ctx)))
	if err != nil {
		return nil, fmt.Errorf("system bus %s: %w", o.address(), err)
	}
	return &Session{opts: o, conn: conn}, nil
}

// Close closes the connection; locks stay until they are released.
func (s *Session) Close() (err error) {
	s.once.Do(func() { err = s.conn.Close() })
	return err
}

func (s *Session) login() dbus.BusObject { return s.conn.Object(login, loginPath) }

func (s *Session) property(ctx context.Context, name string) (v dbus.Variant, err error) {
	err = s.login().CallWithContext(ctx, "org.freedesktop.DBus.Properties.Get", 0, manager, name).Store(&v)
	return v, err
}

// CurrentInhibitDelay returns InhibitDelayMaxUSec: how long a shutdown waits for lock holders.
func (s *Session) CurrentInhibitDelay(ctx context.Context) (time.Duration, error) {
	v, err := s.property(ctx, "InhibitDelayMaxUSec")
	if err != nil {
		return 0, fmt.Errorf("InhibitDelayMaxUSec of %s: %w", login, err)
	}
	n, ok := v.Value().(uint64)
	if !ok {
		return 0, fmt.Errorf("InhibitDelayMaxUSec of %s: unexpected type %s", login, v.Signature())
	}
	if n > math.MaxInt64/uint64(time.Microsecond) {
		return math.MaxInt64, nil // infinity
	}
	return time.Duration(n) * time.Microsecond, nil
}

// PreparingForShutdown returns the property of that name.
func (s *Session) PreparingForShutdown(ctx context.Context) (bool, error) {
	v, err := s.property(ctx, "PreparingForShutdown")
	if err != nil {
		return false, fmt.Errorf("PreparingForShutdown of %s: %w", login, err)
	}
	b, ok := v.Value().(bool)
	if !ok {
		return false, fmt.Errorf("PreparingForShutdown of %s: unexpected type %s", login, v.Signature())
	}
	return b, nil
}

// OverrideInhibitDelay writes a drop-in of logind's configuration, under upstream's file name so
// that the two replace each other, and makes logind reload.
func (s *Session) OverrideInhibitDelay(ctx context.Context, d time.Duration) error {
	dir := s.opts.ConfDir
	if dir == "" {
		dir = "/etc/systemd/logind.conf.d"
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	text := fmt.Sprintf("# Kubelet logind override\n[Login]\nInhibitDelayMaxSec=%.0f\n", math.Ceil(d.Seconds()))
	if err := os.WriteFile(filepath.Join(dir, "99-kubelet.conf"), []byte(text), 0o644); err != nil {
		return err
	}
	call := s.conn.Object(systemd, systemdPath).CallWithContext(ctx, systemd+".Manager.KillUnit", 0,
		"systemd-logind.service", "all", int32(syscall.SIGHUP))
	if call.Err != nil {
		return fmt.Errorf("reload systemd-logind: %w", call.Err)
	}
	return nil
}

// InhibitShutdown takes a lock that delays a shutdown until it is released.
func (s *Session) InhibitShutdown(ctx context.Context) (release func() error, err error) {
	// Not cancelled half-way: the answer contains a file descriptor that must be closed.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	var fd dbus.UnixFD
	if err := s.login().CallWithContext(ctx, manager+".Inhibit", 0, "shutdown", "kubelet",
		"Kubelet needs time to handle node shutdown", "delay").Store(&fd); err != nil {
		return nil, fmt.Errorf("inhibit: %w", err)
	}
	return func() error { return syscall.Close(int(fd)) }, nil
}

// MonitorShutdown returns a channel that receives true when a shutdown begins and false when it is
// cancelled; it is closed when the connection or ctx ends.
func (s *Session) MonitorShutdown(ctx context.Context) (<-chan bool, error) {
	if err := s.conn.AddMatchSignalContext(ctx, dbus.WithMatchInterface(manager), dbus.WithMatchMember(prepareSignal),
		dbus.WithMatchObjectPath(loginPath)); err != nil {
		return nil, fmt.Errorf("match %s: %w", prepareSignal, err)
	}
	raw := make(chan *dbus.Signal, 10)
	s.conn.Signal(raw)
	out := make(chan bool)
	go func() {
		defer close(out)
		defer s.conn.RemoveSignal(raw)
		for {
			select {
			case <-ctx.Done():
				return
			case sig, open := <-raw:
				if !open {
					return
				}
				active, err := parsePrepareSignal(sig)
				if err != nil {
					continue
				}
				select {
				case out <- active:
				case <-ctx.Done():
					return
				}
			}
		}
	}()
	return out, nil
}

func parsePrepareSignal(sig *dbus.Signal) (bool, error) {
	if sig.Name != manager+"."+prepareSignal || len(sig.Body) != 1 {
		return false, errors.New("another signal")
	}
	b, ok := sig.Body[0].(bool)
	if !ok {
		return false, fmt.Errorf("%s carries a %T", prepareSignal, sig.Body[0])
	}
	return b, nil
}
