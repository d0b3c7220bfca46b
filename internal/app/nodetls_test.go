package app

import (
	"os"
	"testing"

	"k8s.io/client-go/util/cert"
)

// A kubelet without a configured pair serves with one for its name and its addresses; another
// address brings another one.
func TestTheSelfSignedCertificateIsForTheNodesAddresses(t *testing.T) {
	p := &instanceOptions{dataDir: t.TempDir(), nodeName: "node-1", nodeIP: "10.1.2.3", otherIP: "fd00::3"}
	created := func() string {
		t.Helper()
		pair, err := selfSigned(p)
		if err != nil {
			t.Fatal(err)
		}
		list, err := cert.CertsFromFile(pair.Cert)
		if err != nil {
			t.Fatal(err)
		}
		for _, host := range append(p.nodeIPs(), p.nodeName) {
			if err := list[0].VerifyHostname(host); err != nil {
				t.Error(err)
			}
		}
		raw, err := os.ReadFile(pair.Cert)
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	first := created()
	if created() != first {
		t.Error("made anew without a reason")
	}
	p.nodeIP = "10.1.2.4"
	if created() == first {
		t.Error("kept though the address is another")
	}
}
