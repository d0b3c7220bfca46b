package partition

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	imagev1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	v1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/test/images"
)

// imageOf is an image of the program alone, not compressed: it is read once.
func imageOf(program []byte) (imagev1.Image, error) {
	var raw bytes.Buffer
	w := tar.NewWriter(&raw)
	if err := w.WriteHeader(&tar.Header{Name: "tmp", Typeflag: tar.TypeDir, Mode: 0o1777}); err != nil {
		return nil, err
	}
	if err := w.WriteHeader(&tar.Header{Name: "gantry", Typeflag: tar.TypeReg, Mode: 0o755,
		Size: int64(len(program))}); err != nil {
		return nil, err
	}
	if _, err := w.Write(program); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(raw.Bytes())), nil }
	layer, err := tarball.LayerFromOpener(open, tarball.WithCompressionLevel(gzip.NoCompression))
	if err != nil {
		return nil, err
	}
	img, err := mutate.AppendLayers(empty.Image, layer)
	if err != nil {
		return nil, err
	}
	return images.WithConfig(img, imagev1.Config{Entrypoint: []string{"/gantry"}})
}

// A node runs its own control plane, API server with etcd, scheduler and controllers, as static
// Pods from an image of this program, and joins it: their mirror Pods are in the API, and what is
// created there runs on the node. When the API server's container is killed the kubelet starts it
// again.
//
// row: STA-10
func TestControlPlaneOfStaticPods(t *testing.T) {
	t.Parallel()
	w := begin(t)
	const name = "registry.test/gantry:1"
	program, err := os.ReadFile(filepath.Join(w.Bin, "gantry"))
	if err != nil {
		t.Fatal(err)
	}
	archive := filepath.Join(t.TempDir(), "images.tar")
	tags := images.Select(images.Standard(), "docker.io/library/busybox:1.28")
	tags[name] = func() (imagev1.Image, error) { return imageOf(program) }
	if err := images.Archive(archive, tags); err != nil {
		t.Fatal(err)
	}
	in := func(name string) string { return filepath.Join(w.server, name) }
	pods := filepath.Join(filepath.Dir(w.dir), "manifests")
	w.Run("manifests", "--data-dir", w.server, "--secure-port", fmt.Sprint(w.port), "--bind-address", "127.0.0.1",
		"--advertise-address", "127.0.0.1", "--node-name", "node-1",
		"--image", name, "--out", pods, "--scheduler-port", "0")
	w.Start("kubelet", "--kubeconfig", in("kubelet.kubeconfig"), "--data-dir", w.dir, "--bin-dir", w.Bin,
		"--hostname-override", "node-1", "--node-ip", "127.0.0.1",
		"--kubelet-port", fmt.Sprint(w.kubelet), "--bridge", w.net.Bridge, "--pod-cidr", w.net.PodCIDR,
		"--pod-manifest-path", pods,
		"--client-ca-file", in("pki/ca.crt"), "--tls-cert-file", in("pki/kubelet.crt"), "--tls-private-key-file",
		in("pki/kubelet.key"))
	w.eventually("containerd", time.Minute, func() bool {
		return w.Command("image", "import", "--data-dir", w.dir, archive).Run() == nil
	})
	running := func(pod string) bool {
		return w.try("", "get", "pod", pod, "-n", "kube-system", "-o",
			"jsonpath={.status.phase} {.status.containerStatuses[0].ready}") == "Running true"
	}
	for _, role := range []string{"apiserver", "scheduler", "controllers"} {
		w.eventually("mirror of "+role, time.Minute, func() bool { return running("gantry-" + role + "-node-1") })
	}
	w.eventually("service account", time.Minute,
		func() bool { return w.try("", "get", "serviceaccount", "default") != "" })
	w.kubectl(strings.ReplaceAll(manifest, "NAME", "web"), "apply", "-f", "-")
	w.eventually("a Pod of the API runs", time.Minute,
		func() bool { p := w.pod("web"); return p != nil && p.Status.Phase == v1.PodRunning })
	before := w.try("", "get", "pod", "gantry-apiserver-node-1", "-n", "kube-system", "-o",
		"jsonpath={.status.containerStatuses[0].containerID}")
	if err := syscall.Kill(w.process("server --data-dir "+w.server), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	w.eventually("the API server runs again", time.Minute, func() bool {
		state := w.try("", "get", "pod", "gantry-apiserver-node-1", "-n", "kube-system", "-o",
			"jsonpath={.status.containerStatuses[0].containerID} {.status.containerStatuses[0].restartCount}")
		id, count, _ := strings.Cut(state, " ")
		return count == "1" && id != before && w.pod("web") != nil
	})
	// before the kubelet ends: its clean-up would not find a server that its node runs
	for _, role := range []string{"controllers", "scheduler", "apiserver"} {
		if err := os.Remove(filepath.Join(pods, "gantry-"+role+".yaml")); err != nil {
			t.Fatal(err)
		}
	}
	w.eventually("the control plane ends with its manifests", time.Minute,
		func() bool { return w.try("", "get", "--raw", "/livez") == "" })
}
