package apiserver_test

import (
	"path/filepath"
	"testing"

	"github.com/gantry-project/gantry/internal/apiserver"
	"github.com/gantry-project/gantry/internal/apiserver/auth"
	"github.com/gantry-project/gantry/internal/pki"
)

func init() {
	apiserver.UseDefaultAccess = func(t *testing.T, c *apiserver.Config) {
		t.Helper()
		files, err := pki.Ensure(filepath.Join(c.DataDir, "pki"), pki.Options{NodeName: "n1", ServiceIP: "10.96.0.1"})
		if err != nil {
			t.Fatal(err)
		}
		c.Files = apiserver.Files{
			Cert: files.APIServer.Cert, Key: files.APIServer.Key, ClientCA: files.CA.Cert,
			ServiceAccountSigning: files.ServiceAccount.Key, ProxyCert: files.FrontProxyClient.Cert,
			ProxyKey: files.FrontProxyClient.Key, RequestHeaderCA: files.FrontProxyCA.Cert,
		}
		c.Access = auth.Access(auth.Options{})
	}
}
