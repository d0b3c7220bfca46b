package pki

import (
	"fmt"
	"os"
	"path/filepath"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// WriteKubeconfig writes a self-contained kubeconfig atomically, with mode 0600. server is a URL.
// Context, cluster and user are all called gantry. An unchanged file is not written.
func WriteKubeconfig(path, server string, m Material) error {
	c := clientcmdapi.NewConfig()
	c.Clusters["gantry"] = &clientcmdapi.Cluster{Server: server, CertificateAuthorityData: m.CA}
	c.AuthInfos["gantry"] = &clientcmdapi.AuthInfo{ClientCertificateData: m.Cert, ClientKeyData: m.Key}
	c.Contexts["gantry"] = &clientcmdapi.Context{Cluster: "gantry", AuthInfo: "gantry"}
	c.CurrentContext = "gantry"
	raw, err := clientcmd.Write(*c)
	if err != nil {
		return fmt.Errorf("kubeconfig %s: %w", path, err)
	}
	if have, err := os.ReadFile(path); err == nil && string(have) == string(raw) {
		return os.Chmod(path, 0o600)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("kubeconfig %s: %w", path, err)
	}
	return writeFile(path, raw)
}

// Material is a client's credentials in PEM.
type Material struct{ CA, Cert, Key []byte }

// Material reads a client's pair and the cluster's CA.
func (f *Files) Material(p Pair) (Material, error) {
	var m Material
	for path, into := range map[string]*[]byte{f.CA.Cert: &m.CA, p.Cert: &m.Cert, p.Key: &m.Key} {
		raw, err := os.ReadFile(path)
		if err != nil {
			return Material{}, fmt.Errorf("credentials: %w", err)
		}
		*into = raw
	}
	return m, nil
}
