package state_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/gantry-project/gantry/internal/kubelet/checkpointmanager"
	"github.com/gantry-project/gantry/internal/kubelet/memorymanager/state"
	"github.com/gantry-project/gantry/test/expect"
)

// TestUpstreamsFile reads what kubelet v1.37.2 wrote (hack/numadiff) and writes the same bytes, and
// reads the forms of earlier kubelets to the same state.
func TestUpstreamsFile(t *testing.T) {
	newest := expect.File(t, "testdata/memory_manager_state")
	want, err := state.Unmarshal(newest, "Static")
	if err != nil {
		t.Fatal(err)
	}
	if len(want.Assignments) == 0 {
		t.Fatal("the file has no assignments: record another")
	}
	if got, err := state.Marshal("Static", want); err != nil || string(got) != strings.TrimSpace(string(newest)) {
		t.Errorf("written again: got %s and error %v, want %s", got, err, newest)
	}
	for _, name := range []string{"memory_manager_state.v1", "memory_manager_state.v2"} {
		raw := expect.File(t, "testdata/"+name)
		got, err := state.Unmarshal(raw, "Static")
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %+v and error %v, want %+v", name, got, err, want)
		}
		changed := strings.Replace(string(raw), `"policyName":"Static"`, `"policyName":"Static "`, 1)
		if _, err := state.Unmarshal([]byte(changed), "Static "); !errors.Is(err, checkpointmanager.ErrCorrupt) {
			t.Errorf("%s changed by hand: got error %v, want checkpoint is corrupted", name, err)
		}
	}
}

func TestFilesThatDoNotRead(t *testing.T) {
	for _, c := range []struct{ blob, policy, want string }{
		{`{"policyName":"None","machineState":{}}`, "Static",
			`[memorymanager] configured policy "Static" differs from state checkpoint policy "None"`},
		{`{"data":"{}","dataChecksum":7}`, "Static", "could not load v3 checkpoint: checkpoint is corrupted"},
		{"", "Static", "could not load v3 checkpoint: unexpected end of JSON input"},
		{`{"policyName":"Static","machineState":{"0":null}}`, "Static",
			"could not read machine state: NUMA node 0 is empty"},
		{`{"policyName":"Static","machineState":{"0":{"memoryMap":{"memory":null}}}}`, "Static",
			"could not read machine state: memory of NUMA node 0 is empty"},
	} {
		if _, err := state.Unmarshal([]byte(c.blob), c.policy); err == nil || err.Error() != c.want {
			t.Errorf("%s: got error %v, want %s", c.blob, err, c.want)
		}
	}
}
