package checkpoint_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gantry-project/gantry/internal/kubelet/devicemanager/checkpoint"
)

// upstream is what kubelet v1.37.2 wrote for entries and registered.
const upstream = `{"Data":{"PodDeviceEntries":[{"PodUID":"uid-1","ContainerName":"main","ResourceName":` +
	`"vendor.com/gpu","DeviceIDs":{"-1":["c"],"0":["a","b"]},"AllocResp":"CgQKAUES"},{"PodUID":"uid-2",` +
	`"ContainerName":"side","ResourceName":"other.com/nic","DeviceIDs":{"1":["n"]},"AllocResp":""}],` +
	`"RegisteredDevices":{"other.com/nic":[],"vendor.com/gpu":["a","b","c"]}},"Checksum":2219678543}`

var entries = []checkpoint.PodDevicesEntry{
	{PodUID: "uid-1", ContainerName: "main", ResourceName: "vendor.com/gpu",
		DeviceIDs: checkpoint.DevicesPerNUMA{0: {"a", "b"}, -1: {"c"}}, AllocResp: []byte{10, 4, 10, 1, 65, 18}},
	{PodUID: "uid-2", ContainerName: "side", ResourceName: "other.com/nic",
		DeviceIDs: checkpoint.DevicesPerNUMA{1: {"n"}}, AllocResp: []byte{}},
}

var registered = map[string][]string{"vendor.com/gpu": {"a", "b", "c"}, "other.com/nic": {}}

// The file is upstream's, byte for byte, and read back.
func TestFormatIsUpstreams(t *testing.T) {
	raw, err := checkpoint.Marshal(entries, registered)
	if err != nil || string(raw) != upstream {
		t.Errorf("got %s, %v, want %s", raw, err, upstream)
	}
	e, r, err := checkpoint.Unmarshal([]byte(upstream))
	if diff := cmp.Diff(entries, e) + cmp.Diff(registered, r); err != nil || diff != "" {
		t.Errorf("read back: %v, %s, want no error, none", err, diff)
	}
}

// Content that somebody changed or cut is refused.
func TestChangedContentIsRefused(t *testing.T) {
	for _, raw := range []string{
		strings.Replace(upstream, `"a","b"]`, `"a","x"]`, 1), strings.Replace(upstream, "2219678543", "1", 1),
		strings.Replace(upstream, "uid-2", "uid-3", 1), upstream[:200], "", "null", "{}", "[]",
	} {
		if e, _, err := checkpoint.Unmarshal([]byte(raw)); err == nil {
			t.Errorf("%s: got %v, want an error", raw, e)
		}
	}
}
