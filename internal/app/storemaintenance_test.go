package app

import (
	"errors"
	"strings"
	"testing"

	"github.com/gantry-project/gantry/internal/apiserver"
	"github.com/gantry-project/gantry/internal/apiserver/store"
)

func TestStoreNews(t *testing.T) {
	for want, err := range map[string]error{
		"takes writes again": nil, "holds 8192 MiB of 8192 MiB": &store.NoSpaceError{Size: 8 << 30, Quota: 8 << 30},
		"gantry etcd defrag": &store.NoSpaceError{}, "not well: no route": errors.New("no route"),
	} {
		if got := storeErrorText(err); !strings.Contains(got, want) {
			t.Errorf("%v: %q lacks %q", err, got, want)
		}
	}
}

// The flags of the server are upstream's, and pairs that make no sense alone are refused by name.
func TestServerFlags(t *testing.T) {
	c := newServer(IO{})
	for _, name := range []string{
		"authentication-config", "oidc-issuer-url", "authorization-config", "authorization-mode",
		"authentication-token-webhook-config-file", "enable-bootstrap-token-auth",
		"audit-policy-file", "audit-log-path", "audit-log-maxage", "audit-log-maxbackup", "audit-log-maxsize",
		"audit-webhook-config-file",
		"encryption-provider-config", "encryption-provider-config-automatic-reload", "etcd-servers", "etcd-cafile",
		"etcd-certfile", "etcd-keyfile",
		"max-requests-inflight", "max-mutating-requests-inflight",
	} {
		if c.Flags().Lookup(name) == nil {
			t.Errorf("no --%s", name)
		}
	}
	if got := (&apiServerOptions{maxReadsInFlight: 7}).inFlight(); got != (apiserver.MaxInFlight{NonMutating: 7,
		Mutating: -1}) {
		t.Errorf("a bound of reads alone: %+v", got)
	}
	k := storageOptions{}
	k.etcd.CertFile = "c.crt"
	if err := k.complete(); err == nil || !strings.Contains(err.Error(), "--etcd-keyfile") {
		t.Errorf("a certificate without key: %v", err)
	}
}
