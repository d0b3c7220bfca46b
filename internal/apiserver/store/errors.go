package store

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"
)

// InUse is the error for a data directory that another process has locked.
type InUse struct{ Dir string }

func (e *InUse) Error() string {
	return fmt.Sprintf("data directory %s is in use by another process: stop it, or choose another data directory",
		e.Dir)
}

// Damaged is the error for a data directory that the embedded etcd cannot read.
type Damaged struct {
	Dir string
	Err error
}

func (e *Damaged) Error() string {
	return fmt.Sprintf("the store in %s is damaged (%v): restore it from a snapshot, or move the directory away to "+
		"start empty", e.Dir, e.Err)
}

// Unwrap returns etcd's error.
func (e *Damaged) Unwrap() error { return e.Err }

// Unreachable is the error when no external etcd server answers.
type Unreachable struct {
	Servers []string
	Err     error
}

func (e *Unreachable) Error() string {
	return fmt.Sprintf("etcd at %s does not answer (%v): check the addresses and certificates of the etcd servers",
		strings.Join(e.Servers, ", "), e.Err)
}

// Unwrap returns the client's error.
func (e *Unreachable) Unwrap() error { return e.Err }

// certificateExpired returns an error if the client certificate in file has expired or cannot be
// read: etcd would only close the connection. "" is no certificate.
func certificateExpired(file string, now time.Time) error {
	if file == "" {
		return nil
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("store: etcd client certificate: %w", err)
	}
	block, _ := pem.Decode(raw)
	if block == nil {
		return fmt.Errorf("store: etcd client certificate %s: no PEM block in it: name a certificate file", file)
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return fmt.Errorf("store: etcd client certificate %s: %w", file, err)
	}
	if now.After(cert.NotAfter) {
		return fmt.Errorf("store: etcd client certificate %s of %q expired on %s: have etcd's authority issue a new "+
			"one and start again",
			file, cert.Subject.CommonName, cert.NotAfter.UTC().Format(time.RFC3339))
	}
	return nil
}

// lockFile locks a file until unlock is called or the process ends. It returns *InUse if another
// process has it.
func lockFile(path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("store: cannot open %s: %w: choose a data directory this user may write", path, err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, &InUse{Dir: strings.TrimSuffix(path, "/lock")}
		}
		return nil, fmt.Errorf("store: cannot lock %s: %w: choose a data directory on a local file system", path, err)
	}
	return func() { _ = f.Close() }, nil
}
