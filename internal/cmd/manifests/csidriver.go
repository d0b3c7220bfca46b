package manifests

import (
	"errors"
	"fmt"
	"io"
	"path"
	"strings"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/gantry-project/gantry/internal/cli"
	"github.com/gantry-project/gantry/internal/csidriver"
)

// Names of the objects in a cluster.
const (
	driverObjects      = "gantry-csi-driver"
	snapshotterObjects = "gantry-csi-snapshotter"
)

// csiDriver prints what runs the driver of local volumes on each node of a cluster.
type csiDriver struct {
	image, program, namespace string
	kubelet, volumes          string // directories of the nodes
	snapshotter               string // image of the csi-snapshotter; empty: none
	snapshotterOnly           bool
}

func newCSIDriver(io cli.IO) *cobra.Command {
	d := &csiDriver{}
	c := &cobra.Command{
		Use:   "csi-driver",
		Short: "Print the DaemonSet, ServiceAccount and roles that run `gantry csi-driver` on each node of a cluster",
		Long: "csi-driver prints what runs the CSI driver of local volumes on every node of a cluster, Gantry's " +
			"or another. The image has the program, and mkfs.ext4,\n" +
			"fsck.ext4, resize2fs and cp beside it (Debian: e2fsprogs, coreutils).",
		Example: "  gantry manifests csi-driver --image registry.example/gantry:1 | kubectl apply -f -",
		Args:    cobra.NoArgs,
		RunE:    func(*cobra.Command, []string) error { return d.print(io.Out) },
	}
	f := c.Flags()
	f.StringVar(&d.image, "image", "", "image with the program gantry and e2fsprogs (required)")
	f.StringVar(&d.program, "program", "/gantry", "path of the program in the image")
	f.StringVar(&d.namespace, "namespace", metav1.NamespaceSystem, "namespace of the DaemonSet")
	f.StringVar(&d.kubelet, "kubelet-dir", "/var/lib/kubelet",
		"the kubelets' directory; of Gantry's nodes: DATA-DIR/kubelet")
	f.StringVar(&d.volumes, "volumes-dir", "/var/lib/gantry-local-storage", "directory of the volumes on each node")
	f.StringVar(&d.snapshotter, "snapshotter-image", "",
		"image of the csi-snapshotter, which runs beside the driver and makes snapshots (default: none)")
	f.BoolVar(&d.snapshotterOnly, "snapshotter-only", false,
		"run the csi-snapshotter alone, where `gantry up` runs the driver")
	return c
}

func (d *csiDriver) print(out io.Writer) error {
	if d.image == "" && !d.snapshotterOnly {
		return cli.UsageError(fmt.Errorf("--image is missing: name an image that holds the program %s", d.program))
	}
	if d.snapshotterOnly && d.snapshotter == "" {
		return cli.UsageError(errors.New("--snapshotter-only wants --snapshotter-image"))
	}
	for _, dir := range []string{d.kubelet, d.volumes} {
		if !path.IsAbs(dir) || strings.Contains(dir, ":") {
			return cli.UsageError(errors.New("--kubelet-dir and --volumes-dir are absolute paths without colons, got " +
				dir))
		}
	}
	for _, o := range []any{d.account(), d.role(), d.binding(), d.daemonSet()} {
		raw, err := yaml.Marshal(o)
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(out, "---\n%s", raw); err != nil {
			return err
		}
	}
	return nil
}

// name is that of the objects.
func (d *csiDriver) name() string {
	if d.snapshotterOnly {
		return snapshotterObjects
	}
	return driverObjects
}

func (d *csiDriver) account() *v1.ServiceAccount {
	return &v1.ServiceAccount{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ServiceAccount"},
		ObjectMeta: metav1.ObjectMeta{Namespace: d.namespace, Name: d.name()}}
}

// role is what the driver's provisioner does, as the ClusterRole gantry:local-storage of Gantry's
// own API server, and the csi-snapshotter if it runs.
func (d *csiDriver) role() *rbacv1.ClusterRole {
	read := []string{"get", "list", "watch"}
	and := func(more ...string) []string { return append(append([]string{}, read...), more...) }
	rule := func(group, resources string, verbs []string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: strings.Split(resources, ","), Verbs: verbs}
	}
	const storage, snapshots = "storage.k8s.io", "snapshot.storage.k8s.io"
	write := []string{"create", "patch", "update"}
	r := &rbacv1.ClusterRole{
		TypeMeta:   metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "ClusterRole"},
		ObjectMeta: metav1.ObjectMeta{Name: d.name()}, Rules: []rbacv1.PolicyRule{
			rule("", "events", and(write...)), rule("events.k8s.io", "events", and(write...)),
			rule(snapshots, "volumesnapshots,volumesnapshotcontents,volumesnapshotclasses", read),
		}}
	if d.snapshotter != "" {
		r.Rules = append(r.Rules,
			rule(snapshots, "volumesnapshotcontents,volumesnapshotcontents/status", []string{"update", "patch"}))
	}
	if !d.snapshotterOnly {
		r.Rules = append(r.Rules,
			rule("", "persistentvolumes", and("create", "update", "patch", "delete")),
			rule("", "persistentvolumeclaims", and("update", "patch")),
			rule("", "persistentvolumeclaims/status", []string{"update", "patch"}),
			rule("", "nodes", read), rule("gateway.networking.k8s.io", "referencegrants", read),
			rule(storage, "storageclasses,csidrivers", and("create")),
			rule(storage, "csinodes", read), rule(snapshots, "volumesnapshotcontents", []string{"patch"}),
			rule(storage, "csistoragecapacities", and("create", "update", "delete")))
	}
	return r
}

func (d *csiDriver) binding() *rbacv1.ClusterRoleBinding {
	return &rbacv1.ClusterRoleBinding{
		TypeMeta:   metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "ClusterRoleBinding"},
		ObjectMeta: metav1.ObjectMeta{Name: d.name()},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: d.name()},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: d.namespace,
			Name: d.name()}}}
}

// daemonSet is the driver on each node: privileged, because it mounts; what it mounts below the
// kubelet's directory is seen by the node, because that directory is propagated both ways.
func (d *csiDriver) daemonSet() *appsv1.DaemonSet {
	labels := map[string]string{"app.kubernetes.io/name": d.name()}
	node := v1.EnvVar{Name: "NODE_NAME", ValueFrom: &v1.EnvVarSource{
		FieldRef: &v1.ObjectFieldSelector{FieldPath: "spec.nodeName"}}}
	host := func(name, dir string, kind v1.HostPathType) v1.Volume {
		return v1.Volume{Name: name, VolumeSource: v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: dir,
			Type: &kind}}}
	}
	spec := v1.PodSpec{
		ServiceAccountName: d.name(), PriorityClassName: "system-node-critical",
		Tolerations: []v1.Toleration{{Operator: v1.TolerationOpExists}},
		Containers: []v1.Container{{
			Name: "driver", Image: d.image, ImagePullPolicy: v1.PullIfNotPresent, Env: []v1.EnvVar{node},
			Command: []string{d.program, "csi-driver", "--node-name=$(NODE_NAME)", "--kubelet-dir=" + d.kubelet,
				"--volumes-dir=" + d.volumes},
			SecurityContext: &v1.SecurityContext{Privileged: ptr.To(true)},
			VolumeMounts: []v1.VolumeMount{
				{Name: "kubelet", MountPath: d.kubelet, MountPropagation: ptr.To(v1.MountPropagationBidirectional)},
				{Name: "volumes", MountPath: d.volumes}, {Name: "dev", MountPath: "/dev"}},
		}},
		Volumes: []v1.Volume{host("kubelet", d.kubelet, v1.HostPathDirectory),
			host("volumes", d.volumes, v1.HostPathDirectoryOrCreate), host("dev", "/dev", v1.HostPathDirectory)},
	}
	if d.snapshotterOnly {
		spec.Containers, spec.Volumes = nil, nil
	}
	if d.snapshotter != "" {
		spec.Containers = append(spec.Containers, v1.Container{
			Name: "snapshotter", Image: d.snapshotter, ImagePullPolicy: v1.PullIfNotPresent, Env: []v1.EnvVar{node},
			Args:         []string{"--csi-address=/csi/csi.sock", "--node-deployment=true"},
			VolumeMounts: []v1.VolumeMount{{Name: "socket", MountPath: "/csi"}}})
		spec.Volumes = append(spec.Volumes, host("socket", path.Join(d.kubelet, "plugins", csidriver.Name),
			v1.HostPathDirectoryOrCreate))
	}
	return &appsv1.DaemonSet{TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "DaemonSet"},
		ObjectMeta: metav1.ObjectMeta{Namespace: d.namespace, Name: d.name()},
		Spec: appsv1.DaemonSetSpec{Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: v1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: spec}}}
}
