package emptydir

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/kubelet/volume"
	"github.com/gantry-project/gantry/internal/kubelet/volume/volumetest"
	"github.com/gantry-project/gantry/internal/linux/mount"
)

// What a Pod made of its emptyDir stays so when the kubelet is started anew: no group, no mode is
// set a second time. The first time fsGroupChangePolicy has no say.
//
// row: CSI-16
func TestAnEmptyDirIsGivenToTheGroupOnce(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("giving files away needs root")
	}
	for _, medium := range []v1.StorageMedium{v1.StorageMediumDefault, v1.StorageMediumMemory} {
		root, group, policy := t.TempDir(), int64(2345), v1.FSGroupChangeOnRootMismatch
		pod := volumetest.Pod()
		pod.Spec.SecurityContext = &v1.PodSecurityContext{FSGroup: &group, FSGroupChangePolicy: &policy}
		a := volume.MounterArgs{
			Pod: pod, Dir: filepath.Join(root, "v"), MetaDir: filepath.Join(root, "meta"),
			FSGroup: &group,
			Spec: volume.Spec{Volume: &v1.Volume{Name: "v",
				VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{Medium: medium}}}},
		}
		typ := Plugin{Mounts: mount.Mounter{}}
		setUp := func(want string) {
			t.Helper()
			if _, err := typ.SetUp(t.Context(), a); err != nil {
				t.Fatal(err)
			}
			st, err := os.Stat(a.Dir)
			if err != nil {
				t.Fatal(err)
			}
			if got := fmt.Sprintf("%d %v", st.Sys().(*syscall.Stat_t).Gid, st.Mode()); got != want {
				t.Errorf("medium %q: %s, want %s", medium, got, want)
			}
		}
		sticky := map[v1.StorageMedium]string{v1.StorageMediumDefault: "dg", v1.StorageMediumMemory: "dgt"}[medium]
		setUp("2345 " + sticky + "rwxrwxrwx")
		if err := os.Chown(a.Dir, 0, 99); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(a.Dir, 0o700); err != nil {
			t.Fatal(err)
		}
		setUp("99 drwx------")
		if err := typ.TearDown(t.Context(), volume.UnmounterArgs{Dir: a.Dir}); err != nil {
			t.Fatal(err)
		}
		setUp("2345 " + sticky + "rwxrwxrwx") // gone without its mark: made anew
		if err := typ.TearDown(t.Context(), volume.UnmounterArgs{Dir: a.Dir}); err != nil {
			t.Fatal(err)
		}
	}
}
