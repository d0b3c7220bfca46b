package volumemanager

import (
	"errors"
	"strings"
	"testing"

	"github.com/gantry-project/gantry/internal/kubelet/volume"
)

// Who waits for a signer looks at the signer; whose request was refused has to ask otherwise.
func TestFixesOfCertificates(t *testing.T) {
	for text, want := range map[string]string{
		"waiting for signer example.com/s to answer PodCertificateRequest n/r, made 3s ago": "kubectl describe " +
			"podcertificaterequests",
		"signer example.com/s denied PodCertificateRequest n/r: UnsupportedKeyType: ask for ED25519": "change " +
			"podCertificate",
	} {
		if got := remedy(nil, errors.New(text)); !strings.Contains(got, want) {
			t.Errorf("%s: got %q, want it with %v", text, got, want)
		}
	}
}

// Each part of making a volume ready fails in upstream's words.
func TestWordsOfFailures(t *testing.T) {
	mount, tearDown := volume.Step{Verb: volume.SetUp}, volume.Step{Verb: volume.TearDown}
	for _, c := range []struct {
		step      volume.Step
		part      volume.Part // empty: none is named
		block     bool
		what, why string
	}{
		{mount, "", false, "MountVolume.SetUp failed", "FailedMount"},
		{mount, volume.WaitForAttach, false, "MountVolume.WaitForAttach failed", "FailedMount"},
		{mount, volume.MountDevice, false, "MountVolume.MountDevice failed", "FailedMount"},
		{mount, volume.MountOptionSupport, false, "MountVolume.MountOptionSupport check failed", "FailedMount"},
		{mount, volume.Expanding, false, "MountVolume.Setup failed while expanding volume", "FailedMount"},
		{mount, volume.ExpandInUse, false, "NodeExpandVolume.NodeExpandVolume failed", "VolumeResizeFailed"},
		{mount, "", true, "MapVolume.MapPodDevice failed", "FailedMapVolume"},
		{mount, volume.WaitForAttach, true, "MapVolume.WaitForAttach failed", "FailedMapVolume"},
		{mount, volume.MountDevice, true, "MapVolume.SetUpDevice failed", "FailedMapVolume"},
		{mount, volume.Expanding, true, "MapVolume.MarkVolumeAsMounted failed while expanding volume",
			"FailedMapVolume"},
		{mount, volume.EvalHostSymlinks, true, "MapVolume.EvalHostSymlinks failed", "FailedMapVolume"},
		{mount, volume.MapBlockVolume, true, "MapVolume.MapBlockVolume failed", "FailedMapVolume"},
		{mount, volume.ExpandInUse, true, "NodeExpandVolume.NodeExpandVolume failed", "VolumeResizeFailed"},
		{tearDown, "", false, "UnmountVolume.TearDown failed", "FailedMount"},
	} {
		err := errors.New("no")
		if c.part != "" {
			err = volume.PartError{Part: c.part, Err: err}
		}
		what, why := failureEvent(failure{step: c.step, err: specError{"pv", c.block, err}})
		if what != c.what || why != c.why {
			t.Errorf("%s of a raw volume (%t): got %q, %s, want %q, %s", c.part, c.block, what, why, c.what, c.why)
		}
	}
}
