package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// With the gate CSIVolumeHealth a volume whose image is gone is reported by its driver: in the
// status of the Pod, by `gantry why` and by `gantry doctor`, with volume, driver and Pods; once the
// image is back, the entry has no conditions.
func TestUnhealthyVolumesAreReported(t *testing.T) {
	t.Parallel()
	config := filepath.Join(t.TempDir(), "kubelet.yaml")
	if err := os.WriteFile(config, []byte("apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"+
		"volumeStatsAggPeriod: 1s\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := newCluster(t, "--feature-gates=CSIVolumeHealth=true", "--kubelet-config", config,
		"--proxy-healthz-bind-address", "", "--proxy-metrics-bind-address", "", "--service-cluster-ip-range",
		"10.94.0.0/16")
	c.Start()
	c.importImages("docker.io/library/busybox:1.28")
	c.apply(localClaim)
	c.apply(localClaimsPod)
	c.waitFor("pod/writer", "condition=Ready", 2*time.Minute)
	volume := c.kubectl("get", "pvc", "data", "-o", "jsonpath={.spec.volumeName}")
	handle := c.kubectl("get", "pv", strings.TrimSpace(volume), "-o", "jsonpath={.spec.csi.volumeHandle}")
	image := filepath.Join(c.Dir, "local-storage/volumes", strings.TrimSpace(handle), "disk.img")
	if err := os.Rename(image, image+".away"); err != nil {
		t.Fatal(err)
	}
	told := func(want string) {
		t.Helper()
		c.eventually(time.Minute, "status.volumeHealth is "+want, func() (string, bool) {
			out, err := c.try("", "get", "pod", "writer", "-o",
				"jsonpath={range .status.volumeHealth[*]}{.name}:{range .healthConditions[*]}{.status} "+
					"{.reason}{end}{end}")
			return out, err == nil && strings.HasSuffix(strings.TrimSpace(out), want)
		})
	}
	told(":Inaccessible ImageMissing")
	for _, ask := range [][]string{{"why", "pod/writer"}, {"doctor"}} {
		out, _ := exec.Command(filepath.Join(c.Bin, "gantry"), append(ask, "--kubeconfig",
			c.Kubeconfig)...).CombinedOutput() // doctor's exit status is that it found something
		for _, want := range []string{"ImageMissing", "local.csi.gantry.dev", "writer", "disk.img is gone"} {
			if !strings.Contains(string(out), want) {
				t.Errorf("gantry %s does not say %q:\n%s", ask[0], want, out)
			}
		}
	}
	if err := os.Rename(image+".away", image); err != nil {
		t.Fatal(err)
	}
	told(":")
	c.kubectl("delete", "pod", "writer")
	c.kubectl("delete", "pvc", "data", "raw")
	c.eventually(time.Minute, "the volumes go", func() (string, bool) {
		pvs := c.kubectl("get", "pv", "-o", "name")
		return pvs, strings.TrimSpace(pvs) == ""
	})
}
