package store

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/zap"
)

// A client certificate past its time is refused by name and date before anybody is asked.
func TestExpiredClientCertificate(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	end := time.Date(2020, 1, 2, 3, 4, 5, 0, time.UTC)
	c := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "gantry"},
		NotBefore: end.Add(-time.Hour), NotAfter: end}
	der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	cert, keyFile := filepath.Join(t.TempDir(), "c.crt"), filepath.Join(t.TempDir(), "c.key")
	for path, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: der},
		keyFile: {Type: "PRIVATE KEY", Bytes: raw}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	_, err = Open(t.Context(), Options{Servers: []string{"https://127.0.0.1:1"}, CertFile: cert, KeyFile: keyFile})
	if err == nil || !strings.Contains(err.Error(), cert) || !strings.Contains(err.Error(),
		"expired on 2020-01-02T03:04:05Z") {
		t.Errorf("got %v", err)
	}
}

// etcd that cannot write says what failed and, on a full disk, what to do.
func TestFailedWriteOfEtcdIsExplained(t *testing.T) {
	defer func() {
		text, _ := recover().(string)
		for _, want := range []string{"failed to save Raft hard state and entries", "no space left on device",
			"make room"} {
			if !strings.Contains(text, want) {
				t.Errorf("%q lacks %q", text, want)
			}
		}
	}()
	newEtcdLogger().Fatal("failed to save Raft hard state and entries", zap.Error(syscall.ENOSPC))
}
