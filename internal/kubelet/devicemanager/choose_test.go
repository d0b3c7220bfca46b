package devicemanager_test

import (
	"fmt"
	"slices"
	"testing"

	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
	"pgregory.net/rapid"

	"github.com/gantry-project/gantry/internal/kubelet/devicemanager"
)

// machine is devices by "id" or "id@node", those with a ! are not healthy.
func machine(list ...string) devicemanager.Resource {
	r := devicemanager.Resource{Devices: map[string]devicemanager.Device{}}
	for _, text := range list {
		d := devicemanager.Device{Health: pluginapi.Healthy}
		id, node := text, int64(-1)
		if n, _ := fmt.Sscanf(text, "%1s@%d", &id, &node); n == 2 {
			d.Nodes = []int64{node}
		}
		if len(text) > 1 && text[len(text)-1] == '!' {
			d.Health, id = pluginapi.Unhealthy, text[:1]
		}
		r.Devices[id] = d
	}
	return r
}

// row: DEV-03
func TestChooseDevices(t *testing.T) {
	set := devicemanager.SetOf
	for _, c := range []struct {
		name string
		r    devicemanager.Request
		want string
	}{
		{"free ones in order", devicemanager.Request{Required: 2, Devices: machine("a", "b", "c"), InUse: set("a")},
			"[b c]"},
		{"unhealthy ones never", devicemanager.Request{Required: 2, Devices: machine("a!", "b", "c")}, "[b c]"},
		{"what it has stays", devicemanager.Request{Required: 1, Devices: machine("a", "b"), InUse: set("b"),
			Has: set("b")}, "[]"},
		{"what it has is sick", devicemanager.Request{Required: 1, Devices: machine("a", "b!"), InUse: set("b"),
			Has: set("b")},
			"previously allocated devices are no longer healthy; cannot allocate unhealthy devices gpu"},
		{"it has another number", devicemanager.Request{Pod: "u", Container: "c", Required: 2,
			Devices: machine("a", "b"),
			Has:     set("b")}, `pod "u" container "c" changed request for resource "gpu" from 1 to 2`},
		{"those of init containers first", devicemanager.Request{Required: 2, Devices: machine("a", "b", "c"),
			InUse: set("c"), Reusable: set("c")}, "[a c]"},
		{"too few", devicemanager.Request{Required: 3, Devices: machine("a", "b", "c"), InUse: set("c")},
			"requested number of devices unavailable for gpu. Requested: 3, Available: 2"},
		{"of the chosen node", devicemanager.Request{Required: 1, Devices: machine("a@0", "b@1", "c"),
			Affinity: map[int64]bool{1: true}}, "[b]"},
		{"of other nodes before those of none", devicemanager.Request{Required: 2, Devices: machine("a", "b@1", "c@0"),
			Affinity: map[int64]bool{1: true}}, "[b c]"},
		{"asks among aligned ones", devicemanager.Request{Required: 1, Devices: machine("a@0", "b@1", "c@1"),
			Affinity: map[int64]bool{1: true}, AsksPreferred: true}, "ask [b c] [] 1"},
		{"asks among all when aligned ones are too few", devicemanager.Request{Required: 2,
			Devices: machine("a@0", "b@1", "c@0"), Affinity: map[int64]bool{1: true}, AsksPreferred: true},
			"ask [a b c] [b] 2"},
		{"takes what is preferred", devicemanager.Request{Required: 1, Devices: machine("a", "b", "c"), InUse: set("b"),
			AsksPreferred: true, Preferred: set("b", "c")}, "[c]"},
		{"and others when that is too little", devicemanager.Request{Required: 2, Devices: machine("a", "b", "c"),
			AsksPreferred: true, Preferred: set("c", "ghost")}, "[a c]"},
	} {
		c.r.Known, c.r.Resource = true, "gpu"
		if got := answer(c.r); got != c.want {
			t.Errorf("%s: got %s, want %s", c.name, got, c.want)
		}
	}
	if got, want := answer(devicemanager.Request{Resource: "gpu", Required: 1, Devices: machine("a")}),
		"cannot allocate unregistered device gpu"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func answer(r devicemanager.Request) string {
	c, err := devicemanager.Choose(r)
	switch {
	case err != nil:
		return err.Error()
	case c.Ask != nil:
		return fmt.Sprint("ask ", c.Ask.Available, c.Ask.MustInclude, c.Ask.Size)
	}
	return fmt.Sprint(c.Devices)
}

// Whatever a plugin prefers and whoever has what: a choice has as many devices as were asked for,
// each once, healthy or taken over, and none that another container has.
//
// row: DEV-03
func TestChoicesAreDisjoint(t *testing.T) {
	ids := []string{"a", "b", "c", "d", "e", "f"}
	some := func(t *rapid.T, what string) devicemanager.Set {
		return devicemanager.SetOf(rapid.SliceOfDistinct(rapid.SampledFrom(ids), rapid.ID[string]).Draw(t, what)...)
	}
	rapid.Check(t, func(t *rapid.T) {
		r := devicemanager.Request{Known: true, Resource: "gpu", Required: rapid.IntRange(0, 6).Draw(t, "n"),
			InUse: some(t, "in use"), AsksPreferred: rapid.Bool().Draw(t, "asks"), Preferred: some(t, "preferred"),
			Devices: devicemanager.Resource{Devices: map[string]devicemanager.Device{}}}
		healthy := some(t, "healthy")
		for _, id := range ids {
			d := devicemanager.Device{Health: pluginapi.Unhealthy}
			if healthy[id] {
				d.Health = pluginapi.Healthy
			}
			if node := rapid.IntRange(-1, 2).Draw(t, "node"); node >= 0 {
				d.Nodes = []int64{int64(node)}
			}
			r.Devices.Devices[id] = d
		}
		if rapid.Bool().Draw(t, "aligned") {
			r.Affinity = map[int64]bool{1: true}
		}
		c, err := devicemanager.Choose(r)
		if err != nil || c.Ask != nil {
			return
		}
		if len(slices.Compact(slices.Sorted(slices.Values(c.Devices)))) != r.Required {
			t.Errorf("got %v, want %d devices", c.Devices, r.Required)
		}
		for _, id := range c.Devices {
			if r.InUse[id] || !healthy[id] {
				t.Errorf("got %s, which is taken or not healthy", id)
			}
		}
	})
}
