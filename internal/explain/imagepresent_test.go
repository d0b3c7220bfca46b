package explain

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/test/wrappers"
)

func withImages(name string, images ...string) *corev1.Node {
	n := wrappers.MakeNode().Name(name).Obj()
	n.Status.Images = []corev1.ContainerImage{{Names: images}}
	return n
}

// An image that cannot be pulled is looked for on the nodes: by its full name, whatever way it is
// written, and by other tags of its repository.
func TestAnImageThatCannotBePulledIsLookedForOnTheNodes(t *testing.T) {
	const always, digest = corev1.PullAlways, "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	for _, c := range []struct {
		name, image string
		policy      corev1.PullPolicy
		here        []string // on the Pod's node, by its status
		runtime     []string // on the Pod's node, by its runtime
		there       []string // on another node
		want, not   []string
	}{
		{"Always, there under its full name", "busybox:1.36", always, []string{"docker.io/library/busybox:1.36"}, nil,
			nil,
			[]string{"connection refused. Node n1 has this image already, but imagePullPolicy Always asks the registry",
				"IfNotPresent would use what is there", "imagePullPolicy IfNotPresent",
				`"imagePullPolicy":"IfNotPresent"`}, []string{"default for"}},
		{"no tag is latest, whose default is Always", "busybox", always, []string{"docker.io/library/busybox:latest"},
			nil, nil,
			[]string{"imagePullPolicy Always (the default for the tag latest)", "IfNotPresent would use"}, nil},
		{"only the runtime tells of it", "reg.test:5000/team/app:2", always, nil, []string{"reg.test:5000/team/app:2"},
			nil, []string{"has this image already"}, nil},
		{"by digest", "reg.test/app@" + digest, always, []string{"reg.test/app@" + digest, "reg.test/app:9"}, nil, nil,
			[]string{"has this image already"}, []string{"default for"}},
		{"by tag and digest the digest decides", "reg.test/app:1@" + digest, always, []string{"reg.test/app@" + digest},
			nil, nil, []string{"has this image already"}, nil},
		{"IfNotPresent, imported since the last try", "web:1", corev1.PullIfNotPresent,
			[]string{"docker.io/library/web:1"}, nil, nil,
			[]string{"has this image by now; imagePullPolicy IfNotPresent uses it at the next try"},
			[]string{"would use"}},
		{"Never, imported since", "web:1", corev1.PullNever, nil, []string{"docker.io/library/web:1"}, nil,
			[]string{"imagePullPolicy Never uses it at the next try"}, nil},
		{"another tag of the repository", "web:1.5", corev1.PullIfNotPresent,
			[]string{"docker.io/library/web:1.4", "docker.io/library/web:2.0", "docker.io/library/web@" + digest}, nil,
			nil,
			[]string{"node n1 has the repository's tags 1.4 and 2.0, not 1.5", "or use web:1.4, which is on n1"},
			[]string{"has this image", "imagePullPolicy IfNotPresent"}},
		{"another tag, policy Always", "web:1.5", always, []string{"docker.io/library/web:1.4"}, nil, nil,
			[]string{"the repository's tag 1.4, not 1.5", "which is on n1, with imagePullPolicy IfNotPresent"}, nil},
		{"on another node", "web:1", corev1.PullIfNotPresent, nil, nil, []string{"docker.io/library/web:1"},
			[]string{"the image is on node n2, not on n1", "gantry image import"}, []string{"has this image"}},
		{"another repository of the same name", "web:1", always,
			[]string{"reg.test/library/web:1", "docker.io/other/web:1"}, nil, nil, nil,
			[]string{"n1 has", "the image is on"}},
		{"a host with a port is no tag", "reg.test:5000/web", always, []string{"reg.test:5000/web:latest"}, nil, nil,
			[]string{"default for the tag latest"}, nil},
	} {
		in := base()
		in.Pod.Spec.Containers[0].Image, in.Pod.Spec.Containers[0].ImagePullPolicy = c.image, c.policy
		in.state(waiting("ImagePullBackOff", "Back-off pulling image: dial tcp: connection refused"))
		in.Node.Status.Images, in.Images = withImages("", c.here...).Status.Images, c.runtime
		in.ClusterContext = &ClusterContext{Nodes: []*corev1.Node{in.Node, withImages("n2", c.there...)}}
		var b strings.Builder
		if err := Why(in).WriteText(&b, t0); err != nil {
			t.Fatal(err)
		}
		for _, w := range c.want {
			if !strings.Contains(b.String(), w) {
				t.Errorf("%s: %q is not said:\n%s", c.name, w, b.String())
			}
		}
		for _, w := range c.not {
			if strings.Contains(b.String(), w) {
				t.Errorf("%s: %q is said:\n%s", c.name, w, b.String())
			}
		}
	}
}

// Without node information, and for an invalid name, the answer is as before.
func TestPresenceNeedsANameAndNodes(t *testing.T) {
	if got := imagePresence("NOT a name", withImages("n1", "NOT a name"), nil, nil); got.onNode ||
		got.otherTags != nil || got.otherNodes != nil {
		t.Errorf("got %+v, want onNode false, no otherTags and no otherNodes", got)
	}
	if got := imagePresence("web:1", nil, nil, nil); got.onNode {
		t.Errorf("got %+v, want onNode false", got)
	}
}
