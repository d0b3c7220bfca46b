package manifests

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/gantry-project/gantry/internal/cli"
)

// printed runs the command and decodes what it printed.
func printed(t *testing.T, args ...string) (ds *appsv1.DaemonSet, role *rbacv1.ClusterRole, kinds []string) {
	t.Helper()
	var out bytes.Buffer
	c := New(cli.IO{Out: &out})
	c.SetArgs(append([]string{"csi-driver"}, args...))
	if err := c.Execute(); err != nil {
		t.Fatal(err)
	}
	for _, text := range strings.Split(strings.TrimPrefix(out.String(), "---\n"), "\n---\n") {
		o, kind, err := scheme.Codecs.UniversalDeserializer().Decode([]byte(text), nil, nil)
		if err != nil {
			t.Fatalf("got error %v, want an object: %s", err, text)
		}
		kinds = append(kinds, kind.Kind)
		switch x := o.(type) {
		case *appsv1.DaemonSet:
			ds = x
		case *rbacv1.ClusterRole:
			role = x
		}
	}
	return ds, role, kinds
}

func allows(r *rbacv1.ClusterRole, resource, verb string) bool {
	return slices.ContainsFunc(r.Rules, func(p rbacv1.PolicyRule) bool {
		return slices.Contains(p.Resources, resource) && slices.Contains(p.Verbs, verb)
	})
}

// row: CSI-14
func TestTheDriverIsAPrivilegedDaemonSet(t *testing.T) {
	ds, role, kinds := printed(t, "--image", "registry.test/gantry:1", "--kubelet-dir", "/k", "--volumes-dir", "/v")
	all := []string{"ServiceAccount", "ClusterRole", "ClusterRoleBinding", "DaemonSet"}
	if !slices.Equal(kinds, all) {
		t.Errorf("printed %v, want %v", kinds, all)
	}
	s := ds.Spec.Template.Spec
	if len(s.Containers) != 1 {
		t.Fatalf("%d containers, want the driver's alone", len(s.Containers))
	}
	d := s.Containers[0]
	if d.SecurityContext == nil || d.SecurityContext.Privileged == nil || !*d.SecurityContext.Privileged {
		t.Errorf("the driver cannot mount: got security context %+v, want a privileged one", d.SecurityContext)
	}
	if m := d.VolumeMounts[0]; m.MountPath != "/k" || m.MountPropagation == nil ||
		*m.MountPropagation != v1.MountPropagationBidirectional {
		t.Errorf("the kubelet's directory is mounted as %v, want /k, in both directions", m)
	}
	want := []string{"/gantry", "csi-driver", "--node-name=$(NODE_NAME)", "--kubelet-dir=/k", "--volumes-dir=/v"}
	if !slices.Equal(d.Command, want) {
		t.Errorf("runs %q, want %q", d.Command, want)
	}
	if !allows(role, "persistentvolumes", "create") || allows(role, "volumesnapshotcontents", "update") {
		t.Errorf("the rights are %v, want those of provisioning, not of snapshots", role.Rules)
	}
}

func TestTheSnapshotterRunsBesideOrAlone(t *testing.T) {
	ds, role, _ := printed(t, "--image", "a", "--snapshotter-image", "s")
	if len(ds.Spec.Template.Spec.Containers) != 2 || !allows(role, "volumesnapshotcontents", "update") {
		t.Errorf("containers %v, rights %v, want a csi-snapshotter with its rights", ds.Spec.Template.Spec.Containers,
			role.Rules)
	}
	ds, role, _ = printed(t, "--snapshotter-only", "--snapshotter-image", "s")
	s := ds.Spec.Template.Spec
	if len(s.Containers) != 1 || s.Containers[0].Image != "s" || s.Containers[0].SecurityContext != nil ||
		allows(role, "persistentvolumes", "create") {
		t.Errorf("containers %v, rights %v, want the csi-snapshotter alone, with its rights", s.Containers, role.Rules)
	}
}

func TestFlagsThatCannotWorkAreRefused(t *testing.T) {
	for want, args := range map[string][]string{
		"--image is missing": {}, "wants --snapshotter-image": {"--snapshotter-only"},
		"absolute paths": {"--image", "a", "--kubelet-dir", "kubelet"},
		"without colons": {"--image", "a", "--volumes-dir", "/a:b"},
	} {
		c := New(cli.IO{Out: &bytes.Buffer{}, Err: &bytes.Buffer{}})
		c.SetArgs(append([]string{"csi-driver"}, args...))
		c.SilenceUsage, c.SilenceErrors = true, true
		if err := c.Execute(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: got %v, want %q", args, err, want)
		}
	}
}
