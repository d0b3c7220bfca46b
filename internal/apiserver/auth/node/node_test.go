package node

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/gantry-project/gantry/test/wrappers"
)

func agent(name string) user.Info {
	return &user.DefaultInfo{Name: "system:node:" + name, Groups: []string{user.NodesGroup, user.AllAuthenticated}}
}

func pod() *corev1.Pod {
	ref := func(n string) corev1.LocalObjectReference { return corev1.LocalObjectReference{Name: n} }
	p := wrappers.MakePod().Namespace("ns").Name("p").UID("u").Node("n1").
		InitContainers(corev1.Container{EnvFrom: []corev1.EnvFromSource{
			{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: ref("env-from")}}}}).
		Containers(corev1.Container{Env: []corev1.EnvVar{{ValueFrom: &corev1.EnvVarSource{
			ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: ref("env-map")},
		}}}}).
		Volumes(corev1.Volume{Name: "a", VolumeSource: corev1.VolumeSource{
			Secret: &corev1.SecretVolumeSource{SecretName: "vol"}}}).
		Volumes(corev1.Volume{Name: "b", VolumeSource: corev1.VolumeSource{
			Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
				{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: ref("kube-root-ca.crt")}},
			}}}}).
		Claims("claim").
		Volumes(corev1.Volume{Name: "d",
			VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}}).
		Obj()
	p.Spec.ServiceAccountName = "sa"
	p.Spec.ImagePullSecrets = []corev1.LocalObjectReference{ref("pull")}
	return p
}

func filled() *Graph {
	x := NewGraph()
	x.AddPod(pod())
	mirror := pod()
	mirror.Name, mirror.Annotations = "mirror", map[string]string{corev1.MirrorPodAnnotationKey: "x"}
	mirror.Spec.Volumes[0].Secret.SecretName = "stolen"
	x.AddPod(mirror)
	x.AddPV(&corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "pv"},
		Spec: corev1.PersistentVolumeSpec{
			ClaimRef: &corev1.ObjectReference{Namespace: "ns", Name: "claim"},
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{
				NodePublishSecretRef:       &corev1.SecretReference{Namespace: "csi", Name: "publish"},
				ControllerPublishSecretRef: &corev1.SecretReference{Namespace: "csi", Name: "controller"},
			}},
		},
	})
	x.SetObjectNode("volumeattachments", "va", "n1")
	return x
}

type authorizeCase struct {
	verb, resource, name string // resource: group/resource/subresource
	namespace            string
	node                 string // default n1
	selects              string // spec.nodeName selected
	want                 string // "" allowed; else the reason
}

func (q authorizeCase) record() authorizer.AttributesRecord {
	var parts [3]string
	at := 0
	for _, c := range q.resource {
		if c == '/' {
			at++
			continue
		}
		parts[at] += string(c)
	}
	node := q.node
	if node == "" {
		node = "n1"
	}
	r := authorizer.AttributesRecord{
		User: agent(node), Verb: q.verb, Namespace: q.namespace, APIGroup: parts[0], Resource: parts[1],
		Subresource: parts[2], Name: q.name, ResourceRequest: true,
	}
	if q.selects != "" {
		r.FieldSelectorRequirements = fields.Requirements{{Field: "spec.nodeName", Operator: selection.Equals,
			Value: q.selects}}
	}
	return r
}

func otherNode(node string) string {
	return fmt.Sprintf("no relationship found between node '%s' and this object", node)
}

func TestANodeReachesWhatItsPodsNeed(t *testing.T) {
	z := &Authorizer{Graph: filled(),
		Rules: []rbacv1.PolicyRule{{Verbs: []string{"list", "watch"}, APIGroups: []string{""},
			Resources: []string{"services"}}}}
	const readOnly, individual = "can only read resources of this type",
		"can only get individual resources of this type"
	cases := []authorizeCase{
		{verb: "get", resource: "/secrets", namespace: "ns", name: "vol"},
		{verb: "watch", resource: "/secrets", namespace: "ns", name: "pull"},
		{verb: "get", resource: "/secrets", namespace: "ns", name: "env-from"},
		{verb: "get", resource: "/secrets", namespace: "csi", name: "publish"},
		{verb: "get", resource: "/secrets", namespace: "csi", name: "controller", want: otherNode("n1")},
		{verb: "get", resource: "/secrets", namespace: "ns", name: "stolen", want: otherNode("n1")},
		{verb: "get", resource: "/secrets", namespace: "other", name: "vol", want: otherNode("n1")},
		{verb: "get", resource: "/secrets", namespace: "ns", name: "vol", node: "n2", want: otherNode("n2")},
		{verb: "list", resource: "/secrets", namespace: "ns", want: "No Object name found"},
		{verb: "list", resource: "/secrets", want: "can only read namespaced object of this type"},
		{verb: "update", resource: "/secrets", namespace: "ns", name: "vol", want: readOnly},
		{verb: "get", resource: "/configmaps", namespace: "ns", name: "env-map"},
		{verb: "get", resource: "/configmaps", namespace: "ns", name: "kube-root-ca.crt"},
		{verb: "get", resource: "/configmaps/x", namespace: "ns", name: "env-map", want: "cannot read subresource"},
		{verb: "get", resource: "/persistentvolumeclaims", namespace: "ns", name: "claim"},
		{verb: "get", resource: "/persistentvolumeclaims", namespace: "ns", name: "p-d"},
		{verb: "list", resource: "/persistentvolumeclaims", namespace: "ns", want: individual},
		{verb: "patch", resource: "/persistentvolumeclaims/status", namespace: "ns", name: "claim"},
		{verb: "delete", resource: "/persistentvolumeclaims/status", namespace: "ns", name: "claim",
			want: "can only get/update/patch this type"},
		{verb: "get", resource: "/persistentvolumes", name: "pv"},
		{verb: "get", resource: "/persistentvolumes", name: "pv", node: "n2", want: otherNode("n2")},
		{verb: "get", resource: "storage.k8s.io/volumeattachments", name: "va"},
		{verb: "get", resource: "storage.k8s.io/volumeattachments", name: "va", node: "n2", want: otherNode("n2")},
		{verb: "create", resource: "/serviceaccounts/token", namespace: "ns", name: "sa"},
		{verb: "create", resource: "/serviceaccounts/token", namespace: "ns", name: "other", want: otherNode("n1")},
		{verb: "update", resource: "/serviceaccounts", namespace: "ns", name: "sa",
			want: "can only create tokens for individual service accounts"},
		{verb: "get", resource: "/pods", namespace: "ns", name: "p"},
		{verb: "get", resource: "/pods", namespace: "ns", name: "p", node: "n2", want: otherNode("n2")},
		{verb: "list", resource: "/pods", selects: "n1"},
		{verb: "watch", resource: "/pods", selects: "n2",
			want: "can only list/watch pods with spec.nodeName field selector"},
		{verb: "list", resource: "/pods", want: "can only list/watch pods with spec.nodeName field selector"},
		{verb: "patch", resource: "/pods/status", namespace: "ns", name: "p"},
		{verb: "create", resource: "/pods/eviction", namespace: "ns", name: "p"},
		{verb: "create", resource: "/pods", namespace: "ns"},
		{verb: "get", resource: "/nodes", name: "n1"},
		{verb: "get", resource: "/nodes", name: "n2", want: "node 'n1' cannot read 'n2', only its own Node object"},
		{verb: "list", resource: "/nodes", want: "node 'n1' cannot read all nodes, only its own Node object"},
		{verb: "patch", resource: "/nodes/status", name: "n1"},
		{verb: "update", resource: "coordination.k8s.io/leases", namespace: "kube-node-lease", name: "n1"},
		{verb: "update", resource: "coordination.k8s.io/leases", namespace: "kube-node-lease", name: "n2",
			want: "can only access node lease with the same name as the requesting node"},
		{verb: "get", resource: "coordination.k8s.io/leases", namespace: "ns", name: "n1",
			want: `can only access leases in the "kube-node-lease" system namespace`},
		{verb: "list", resource: "coordination.k8s.io/leases", namespace: "kube-node-lease",
			want: "can only get, create, update, patch, or delete a node lease"},
		{verb: "update", resource: "storage.k8s.io/csinodes", name: "n2",
			want: "can only access CSINode with the same name as the requesting node"},
		{verb: "patch", resource: "storage.k8s.io/csinodes/status", name: "n1",
			want: "CSINode status access requires CSIVolumeHealth feature"},
		{verb: "get", resource: "storage.k8s.io/csinodes/other", name: "n1",
			want: "cannot authorize CSINode subresources"},
		{verb: "create", resource: "resource.k8s.io/resourceslices"},
		{verb: "list", resource: "resource.k8s.io/resourceslices",
			want: "can only list/watch/deletecollection resourceslices with nodeName field selector"},
		{verb: "list", resource: "/services"},
	}
	for _, c := range cases {
		t.Run(fmt.Sprintf("%s %s %s %s", c.verb, c.resource, c.name, c.node), func(t *testing.T) {
			d, reason, err := z.Authorize(t.Context(), c.record())
			if err != nil {
				t.Fatal(err)
			}
			if allowed := d == authorizer.DecisionAllow; allowed != (c.want == "") || !allowed && reason != c.want {
				t.Errorf("decision %v, reason %q, want %q", d, reason, c.want)
			}
		})
	}
}

func TestOtherUsersAreNotNodes(t *testing.T) {
	z := &Authorizer{Graph: filled()}
	for _, u := range []user.Info{
		&user.DefaultInfo{Name: "system:node:n1"}, &user.DefaultInfo{Name: "bob", Groups: []string{user.NodesGroup}},
		agent(""),
	} {
		r := authorizeCase{verb: "get", resource: "/secrets", namespace: "ns", name: "vol"}.record()
		r.User = u
		if d, _, _ := z.Authorize(t.Context(), r); d != authorizer.DecisionNoOpinion {
			t.Errorf("%v: got %v, want %v", u, d, authorizer.DecisionNoOpinion)
		}
	}
}

func TestNodeGraphDropsDeletedObjects(t *testing.T) {
	x := filled()
	moved := pod()
	moved.Spec.Volumes = nil
	x.AddPod(moved)
	if got, want := []bool{
		x.HasPathFrom("n1", "secrets", "ns", "vol"),
		x.HasPathFrom("n1", "persistentvolumes", "", "pv"),
		x.HasPathFrom("n1", "secrets", "csi", "publish"),
	}, []bool{false, false, false}; !slices.Equal(got, want) {
		t.Errorf("a Pod that no longer refers to an object still vouches for it: got %v, want %v", got, want)
	}
	x.DeletePod(types.NamespacedName{Namespace: "ns", Name: "p"})
	x.DeletePod(types.NamespacedName{Namespace: "ns", Name: "mirror"})
	if len(x.refs) != 0 || len(x.pods) != 0 {
		t.Errorf("left over: %v %v, want none, none", x.refs, x.pods)
	}
	x.AddPod(pod())
	x.ReplacePods(nil)
	x.DeletePV("pv")
	if len(x.refs) != 0 || len(x.pods) != 0 || len(x.volumesBySecret) != 0 || len(x.pvs) != 0 {
		t.Errorf("left over: %v %v %v %v, want none, none, none, none", x.refs, x.pods, x.volumesBySecret, x.pvs)
	}
}

func TestAuthorizerWaitsForTheNodeGraph(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := NewGraph()
		z := &Authorizer{Graph: x, MaxWait: time.Second}
		q := authorizeCase{verb: "get", resource: "/secrets", namespace: "ns", name: "vol"}.record()
		begin := time.Now()
		go func() {
			time.Sleep(100 * time.Millisecond)
			other := pod()
			other.Name, other.Spec.Volumes = "other", nil
			x.AddPod(other)
			time.Sleep(100 * time.Millisecond)
			x.AddPod(pod())
		}()
		if d, reason, _ := z.Authorize(t.Context(), q); d != authorizer.DecisionAllow ||
			time.Since(begin) != 200*time.Millisecond {
			t.Errorf("%v %q after %v, want %v, %v", d, reason, time.Since(begin), authorizer.DecisionAllow,
				200*time.Millisecond)
		}
		q.Name, begin = "never", time.Now()
		if d, _, _ := z.Authorize(t.Context(), q); d == authorizer.DecisionAllow || time.Since(begin) != time.Second {
			t.Errorf("%v after %v", d, time.Since(begin))
		}
	})
}
