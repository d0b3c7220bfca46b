package gather

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	registerapi "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"github.com/gantry-project/gantry/internal/doctor"
	"github.com/gantry-project/gantry/internal/linux/mount"
)

// Storage is what the API says of CSI volumes, with what of them is on this machine when it is one
// of the nodes; nil for who may not read it.
func (s *Gatherer) Storage(ctx context.Context, client kubernetes.Interface, nodes []doctor.Node) *doctor.Storage {
	csiNodes, err := client.StorageV1().CSINodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil
	}
	attachments, err := client.StorageV1().VolumeAttachments().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil
	}
	volumes, err := client.CoreV1().PersistentVolumes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil
	}
	pods, err := client.CoreV1().Pods("").List(ctx, metav1.ListOptions{FieldSelector: "status.phase=Pending"})
	if err != nil {
		return nil
	}
	out := &doctor.Storage{CSINodes: csiNodes.Items, Attachments: attachments.Items, Volumes: volumes.Items,
		Pending: pods.Items}
	for _, c := range csiNodes.Items { // without drivers that say how volumes are there is nothing to look for
		if len(c.Spec.Drivers) > 0 {
			out.Unhealthy = unhealthyPods(ctx, client)
			break
		}
	}
	for _, n := range nodes {
		if n.Local {
			out.Local = s.localStorage(ctx, client, n.Name, volumes.Items)
		}
	}
	return out
}

// unhealthyPods are the Pods of which a volume is not well, from the API server's cache; none for
// who may not read them.
func unhealthyPods(ctx context.Context, client kubernetes.Interface) []v1.Pod {
	all, err := client.CoreV1().Pods("").List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		return nil
	}
	var out []v1.Pod
	for _, p := range all.Items {
		if slices.ContainsFunc(p.Status.VolumeHealth,
			func(h v1.PodVolumeHealth) bool { return len(h.HealthConditions) > 0 }) {
			out = append(out, p)
		}
	}
	return out
}

// localStorage looks at the directories of the instance; nil when its Pods cannot be told from
// others.
func (s *Gatherer) localStorage(ctx context.Context, client kubernetes.Interface, node string,
	volumes []v1.PersistentVolume) *doctor.LocalStorage {
	pods, err := client.CoreV1().Pods("").List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=" + node})
	if err != nil {
		return nil
	}
	root := s.Instance.KubeletDir()
	if entries, err := os.ReadDir(filepath.Join(root, "pods")); err != nil || len(entries) == 0 && len(pods.Items) > 0 {
		return nil // another directory, or nothing that we may read
	}
	out := &doctor.LocalStorage{Node: node, Sockets: registrySockets(ctx, filepath.Join(root, "plugins_registry"))}
	out.PodDirs = lostPodDirs(filepath.Join(root, "pods"), pods.Items, mount.Mounter{})
	out.Loops = lostLoops("/sys/block", filepath.Join(s.Instance.DataDir, "local-storage"), volumes)
	return out
}

// registrySockets asks who answers at the sockets of plugins_registry.
func registrySockets(ctx context.Context, dir string) []doctor.Socket {
	var out []doctor.Socket
	_ = filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err == nil && e.Type()&os.ModeSocket != 0 {
			out = append(out, registrySocket(ctx, path))
		}
		return nil
	})
	return out
}

func registrySocket(ctx context.Context, path string) doctor.Socket {
	out := doctor.Socket{Path: path}
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	c, err := (&net.Dialer{}).DialContext(ctx, "unix", path)
	if err != nil {
		out.Err = err
		return out
	}
	_ = c.Close()
	conn, err := grpc.NewClient("unix://"+path, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		out.Err = err
		return out
	}
	defer conn.Close()
	info, err := registerapi.NewRegistrationClient(conn).GetInfo(ctx, &registerapi.InfoRequest{})
	if out.Err = err; err == nil && info.GetType() == registerapi.CSIPlugin {
		out.Driver = info.GetName()
	}
	return out
}

// mountLister lists what is mounted below a directory.
type mountLister interface {
	MountPoints(dir string) ([]string, error)
}

// lostPodDirs are the directories of Pods that are not among those of the node.
func lostPodDirs(dir string, pods []v1.Pod, mounts mountLister) []doctor.PodDir {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	known := map[string]bool{}
	for i := range pods {
		known[string(pods[i].UID)] = true
		known[pods[i].Annotations[v1.MirrorPodAnnotationKey]] = true // a static Pod's own
	}
	var out []doctor.PodDir
	for _, e := range entries {
		if known[e.Name()] || !e.IsDir() {
			continue
		}
		d := doctor.PodDir{Path: filepath.Join(dir, e.Name())}
		if info, err := e.Info(); err == nil {
			d.Age = time.Since(info.ModTime())
		}
		if d.Mounts, err = mounts.MountPoints(d.Path); err != nil {
			continue // nothing is said of a directory of which it is not known what is mounted there
		}
		out = append(out, d)
	}
	return out
}

// lostLoops are the loop devices of images of local volumes that are no more.
func lostLoops(sys, dir string, volumes []v1.PersistentVolume) []doctor.LoopDevice {
	files, err := filepath.Glob(filepath.Join(sys, "loop*/loop/backing_file"))
	if err != nil {
		return nil // only a bad pattern fails
	}
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real
	}
	known := map[string]bool{}
	for _, v := range volumes {
		if v.Spec.CSI != nil {
			known[v.Spec.CSI.VolumeHandle] = true
		}
	}
	var out []doctor.LoopDevice
	for _, file := range files {
		text, err := os.ReadFile(file)
		image, deleted := strings.CutSuffix(strings.TrimSpace(string(text)), " (deleted)")
		rel, below := strings.CutPrefix(image, filepath.Join(dir, "volumes")+"/")
		if err != nil || !below {
			continue
		}
		l := doctor.LoopDevice{Device: "/dev/" + filepath.Base(filepath.Dir(filepath.Dir(file))), Image: image}
		id, _, _ := strings.Cut(rel, "/")
		switch {
		case deleted:
			l.Why = "the image is deleted, and takes room until the device is given back"
		case strings.HasPrefix(id, "pvc-") && !known[id]:
			l.Why = "no PersistentVolume has it"
		default:
			continue
		}
		out = append(out, l)
	}
	return out
}
