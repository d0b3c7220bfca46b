package apiserver

import (
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
)

// PortTaken is New's error when another process listens on the address.
type PortTaken struct {
	Address string // host:port
	Err     error
}

func (e *PortTaken) Error() string {
	return fmt.Sprintf("address %s is taken by another process: stop it, or choose another port", e.Address)
}

// Unwrap returns the kernel's error.
func (e *PortTaken) Unwrap() error { return e.Err }

// BadFile is New's error for a certificate or key file that cannot be used.
type BadFile struct {
	What, Path string
	Err        error
}

func (e *BadFile) Error() string {
	return fmt.Sprintf("%s %s cannot be used (%v): name a readable PEM file, or remove the instance's certificates "+
		"to make new ones", e.What, e.Path, e.Err)
}

// Unwrap returns the cause.
func (e *BadFile) Unwrap() error { return e.Err }

// listen opens the serving port, or returns l.Listener. Errors are *PortTaken or of the kernel.
func listen(l Listen) (net.Listener, error) {
	if l.Listener != nil {
		return l.Listener, nil
	}
	host, port := l.Address, l.Port
	if host == "" {
		host = "0.0.0.0"
	}
	switch {
	case port == 0:
		port = 6443
	case port < 0:
		port = 0
	}
	address := net.JoinHostPort(host, fmt.Sprint(port))
	ln, err := net.Listen("tcp", address)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, &PortTaken{Address: address, Err: err}
	case errors.Is(err, syscall.EACCES), errors.Is(err, os.ErrPermission):
		return nil, fmt.Errorf("address %s may not be used: %w: choose a port above 1023, or run as root", address, err)
	case err != nil:
		return nil, fmt.Errorf("address %s cannot be used: %w: choose an address of this machine", address, err)
	}
	return ln, nil
}
