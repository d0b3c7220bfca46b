package options

import (
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// Who makes the Pod network: Gantry, unless that is denied or another CNI plugin's directory is
// named, in which nothing of Gantry's is.
func TestNetworkFlagNamesTheCNIPlugin(t *testing.T) {
	for _, c := range []struct {
		args  string
		made  string // where Gantry's configuration lies
		waits bool
		dir   string
		err   string
	}{
		{args: ""},
		{args: "--network=gantry"},
		{args: "--network=none", waits: true, dir: "/etc/cni/net.d"},
		{args: "--network=none --cni-conf-dir=/x", waits: true, dir: "/x"},
		{args: "--network=none", made: "/var/lib/gantry/cni/net.d", waits: true, dir: "/etc/cni/net.d"},
		{args: "--cni-conf-dir=/x", waits: true, dir: "/x"},
		{args: "--cni-conf-dir=/x", made: "/var/lib/gantry/cni/net.d", waits: true, dir: "/x"},
		{args: "--cni-conf-dir=/x", made: "/x", dir: "/x"}, // Gantry wrote it at an earlier start
		{args: "--cni-conf-dir=/x --network=gantry", dir: "/x"},
		{args: "--network=flannel", err: `--network "flannel": it is gantry or none`},
		{args: "--network=none --pod-cidr=10.0.0.0/24", err: "--pod-cidr is for Gantry's own network"},
	} {
		n, f := &PodNetwork{}, pflag.NewFlagSet("", pflag.ContinueOnError)
		n.flags(f)
		if err := f.Parse(strings.Fields(c.args)); err != nil {
			t.Fatal(err)
		}
		switch err := n.Check(); {
		case c.err != "":
			if err == nil || !strings.HasPrefix(err.Error(), c.err) {
				t.Errorf("%s: got %v, want an error beginning with %v", c.args, err, c.err)
			}
		case err != nil:
			t.Errorf("%s: got %v, want no error", c.args, err)
		case n.ExternalCNI(c.made) != c.waits || n.cniConfDir != c.dir:
			t.Errorf("%s beside %q: waits %v in %q", c.args, c.made, n.ExternalCNI(c.made), n.cniConfDir)
		}
	}
}
