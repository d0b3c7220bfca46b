package noderole

import (
	"testing"

	"github.com/spf13/pflag"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/record"

	"github.com/gantry-project/gantry/internal/linux/proc"
	"github.com/gantry-project/gantry/internal/options"
)

// The flags reach what keeps the Node's object: without --register-node it is made, with
// --register-node=false it is not, and its name is that of --hostname-override.
//
// row: KSL-05
func TestFlagsOfTheNodesObject(t *testing.T) {
	for _, c := range []struct {
		args     []string
		register bool
	}{
		{nil, true}, {[]string{"--register-node"}, true}, {[]string{"--register-node=true"}, true},
		{[]string{"--register-node=false"}, false},
	} {
		e, f, _ := fakeContainerRuntime(t, "cgroupfs")
		p := &options.Instance{DataDir: t.TempDir(), NodeName: "other", NodeIP: "192.0.2.1", Runtime: f.Endpoint()}
		n := &KubeletOptions{}
		flags := pflag.NewFlagSet("", pflag.ContinueOnError)
		n.KubeletFlags(flags)
		n.ConfigFlags(flags, "")
		if err := flags.Parse(c.args); err != nil {
			t.Fatal(err)
		}
		if err := n.Load(p, nil); err != nil {
			t.Fatal(err)
		}
		role, err := n.Role(t.Context(), p, e, fake.NewClientset())
		if err != nil {
			t.Fatal(err)
		}
		o := role.statusOptions(proc.Machine{UserNamespace: true}, proc.Disk{}, nil, record.NewFakeRecorder(1))
		if in := o.Machine.RunningInUserNamespace; in == nil || !*in {
			t.Errorf("%q: got RunningInUserNamespace %v, want true", c.args, in)
		}
		role.config.FeatureGates = map[string]bool{"KubeletInUserNamespace": false}
		if in := role.userNamespace(proc.Machine{UserNamespace: true}); in != nil {
			t.Errorf("%q: without the gate got RunningInUserNamespace %t, want none", c.args, *in)
		}
		if o.Register != c.register || o.Identity.Name != "other" {
			t.Errorf("%q: registers %t under the name %q, want %t and other", c.args, o.Register, o.Identity.Name,
				c.register)
		}
	}
}
