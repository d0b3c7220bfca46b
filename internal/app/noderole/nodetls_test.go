package noderole

import (
	"os"
	"testing"

	"k8s.io/client-go/util/cert"

	"github.com/gantry-project/gantry/internal/options"
)

// A kubelet without a configured pair serves with one for its name and its addresses; another
// address brings another one.
func TestTheSelfSignedCertificateIsForTheNodesAddresses(t *testing.T) {
	p := &options.Instance{DataDir: t.TempDir(), NodeName: "node-1", NodeIP: "10.1.2.3", OtherIP: "fd00::3"}
	created := func() string {
		t.Helper()
		pair, err := SelfSigned(p)
		if err != nil {
			t.Fatal(err)
		}
		list, err := cert.CertsFromFile(pair.Cert)
		if err != nil {
			t.Fatal(err)
		}
		for _, host := range append(p.NodeIPs(), p.NodeName) {
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
	p.NodeIP = "10.1.2.4"
	if created() == first {
		t.Error("kept though the address is another")
	}
}
