package certreload

import (
	"context"
	"crypto/x509"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/util/cert"
)

type countingListener struct{ notified int }

func (b *countingListener) Enqueue() { b.notified++ }

// A changed pair is in force five seconds later and listeners are notified; half of a new pair, or
// rubbish, changes nothing.
func TestPairIsFollowed(t *testing.T) {
	dir := t.TempDir()
	certFile, keyFile := filepath.Join(dir, "c"), filepath.Join(dir, "k")
	type pair [2]string
	fresh := func() pair {
		c, k, err := cert.GenerateSelfSignedCertKey("host", nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		return pair{string(c), string(k)}
	}
	write := func(path, text string) {
		if err := os.WriteFile(path+"~", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(path+"~", path); err != nil {
			t.Fatal(err)
		}
	}
	first, second := fresh(), fresh()
	write(certFile, first[0])
	write(keyFile, first[1])
	synctest.Test(t, func(t *testing.T) {
		p, err := NewCertKeyContent("serving", certFile, keyFile)
		if err != nil {
			t.Fatal(err)
		}
		ca, err := NewCAContent("client-ca", certFile)
		if err != nil {
			t.Fatal(err)
		}
		var b, authorities countingListener
		p.AddListener(&b)
		ca.AddListener(&authorities)
		ctx, stop := context.WithCancel(t.Context())
		go p.Run(ctx, 1)
		go ca.Run(ctx, 1)
		for _, step := range []struct {
			path, text string
			notified   int
			want       pair
		}{{certFile, first[0], 0, first}, {certFile, second[0], 0, first}, {keyFile, second[1], 1, second},
			{keyFile, "rubbish", 1, second}, {certFile, "", 1, second}, {keyFile, second[1], 1, second}} {
			write(step.path, step.text)
			time.Sleep(PollPeriod)
			synctest.Wait()
			if c, k := p.CurrentCertKeyContent(); b.notified != step.notified ||
				(pair{string(c), string(k)}) != step.want {
				t.Errorf("after %q: notified %d times, want %d", step.text, b.notified, step.notified)
			}
		}
		o, ok := ca.VerifyOptions()
		if !ok || o.Roots == nil || authorities.notified != 1 || string(ca.CurrentCABundleContent()) != second[0] {
			t.Errorf("authorities: notified %d times", authorities.notified)
		}
		if want := []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}; !slices.Equal(o.KeyUsages, want) {
			t.Errorf("certificates are believed for %v, want clients alone: %v", o.KeyUsages, want)
		}
		stop()
		synctest.Wait()
	})
	if _, err := NewCAContent("client-ca", filepath.Join(dir, "none")); err == nil {
		t.Error("a file that is not there is believed")
	}
}
