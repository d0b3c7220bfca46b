package server

import (
	"testing"

	"github.com/gantry-project/gantry/internal/cli"
)

// The flags of the server are upstream's, and pairs that make no sense alone are refused by name.
func TestServerFlags(t *testing.T) {
	c := New(cli.IO{})
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
}
