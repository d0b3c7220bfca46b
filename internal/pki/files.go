package pki

import (
	"bytes"
	"crypto"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// maxPEM bounds the bytes read of a PEM file.
const maxPEM = 1 << 20

// readBlock returns the first PEM block of a file, nil if there is no file, and sets the file's
// mode to 0600.
func readBlock(path, remedy string) (*pem.Block, error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil && (info.IsDir() || info.Size() > maxPEM) {
		err = errors.New("not a PEM file")
	}
	var raw []byte
	if err == nil {
		raw, err = os.ReadFile(path)
	}
	if err == nil && info.Mode().Perm()&0o077 != 0 {
		err = os.Chmod(path, 0o600)
	}
	if err != nil {
		return nil, fmt.Errorf("%s cannot be used: %w: %s", path, err, remedy)
	}
	block, _ := pem.Decode(raw)
	if block == nil {
		return nil, fmt.Errorf("%s is damaged: no PEM block in it: %s", path, remedy)
	}
	return block, nil
}

// readKey returns the private key in a file (SEC 1, PKCS#8 or PKCS#1), nil if there is no file.
func readKey(path, remedy string) (crypto.Signer, error) {
	block, err := readBlock(path, remedy)
	if block == nil || err != nil {
		return nil, err
	}
	var key any
	switch block.Type {
	case "EC PRIVATE KEY":
		key, err = x509.ParseECPrivateKey(block.Bytes)
	case "RSA PRIVATE KEY":
		key, err = x509.ParsePKCS1PrivateKey(block.Bytes)
	case "PRIVATE KEY":
		key, err = x509.ParsePKCS8PrivateKey(block.Bytes)
	default:
		err = fmt.Errorf("holds a %q instead of a private key", block.Type)
	}
	signer, ok := key.(crypto.Signer)
	if err == nil && !ok {
		err = errors.New("holds a key that cannot sign")
	}
	if err != nil {
		return nil, fmt.Errorf("%s is damaged: %w: %s", path, err, remedy)
	}
	return signer, nil
}

// readCert returns the certificate in a file, nil if there is no file.
func readCert(path, remedy string) (*x509.Certificate, error) {
	block, err := readBlock(path, remedy)
	if block == nil || err != nil {
		return nil, err
	}
	if block.Type != "CERTIFICATE" {
		return nil, fmt.Errorf("%s is damaged: holds a %q instead of a certificate: %s", path, block.Type, remedy)
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("%s is damaged: %w: %s", path, err, remedy)
	}
	return cert, nil
}

func writePEM(path, kind string, der []byte) error {
	return writeFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}

// ensurePEM writes a derived file unless it is right already.
func ensurePEM(path, kind string, der []byte) error {
	want := pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
	if have, err := os.ReadFile(path); err == nil && bytes.Equal(have, want) {
		return os.Chmod(path, 0o600)
	}
	return writeFile(path, want)
}

// writeFile writes data to path atomically and durably, with mode 0600.
func writeFile(path string, data []byte) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	defer func() {
		if err != nil {
			os.Remove(f.Name())
			err = fmt.Errorf("%s: %w", path, err)
		}
	}()
	if _, err = f.Write(data); err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	return err
}
