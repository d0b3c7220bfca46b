package static_test

import (
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gantry-project/gantry/internal/kubelet/podsource/static"
)

var (
	now   = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	file  = static.Origin{Source: "file", Location: "/etc/kubernetes/manifests/a.yaml", Node: "Node-1"}
	rules = static.Rules{
		Default: func(p *v1.Pod) { p.Spec.RestartPolicy = v1.RestartPolicyAlways },
		Validate: func(p *v1.Pod) (errs field.ErrorList) {
			if len(p.Spec.Containers) == 0 {
				errs = append(errs, field.Required(field.NewPath("spec", "containers"), ""))
			}
			return errs
		},
	}
)

func manifest(spec string) string {
	return "apiVersion: v1\nkind: Pod\nmetadata: {name: etcd}\nspec: {containers: [{name: c, image: i}], " + spec + "}"
}

func read(t *testing.T, text string, o static.Origin) *v1.Pod {
	t.Helper()
	m, err := static.ParsePod([]byte(text), o, rules, now)
	if err != nil {
		t.Fatal(err)
	}
	return m.Pod
}

func TestManifestBecomesAStaticPod(t *testing.T) {
	p := read(t, manifest("priorityClassName: system-node-critical"), file)
	for what, got := range map[string][2]string{
		"name":       {p.Name, "etcd-node-1"},
		"namespace":  {p.Namespace, "default"},
		"node":       {p.Spec.NodeName, "Node-1"},
		"source":     {p.Annotations["kubernetes.io/config.source"], "file"},
		"hash":       {p.Annotations["kubernetes.io/config.hash"], string(p.UID)},
		"seen":       {p.Annotations["kubernetes.io/config.seen"], "2026-01-02T03:04:05Z"},
		"phase":      {string(p.Status.Phase), "Pending"},
		"defaults":   {string(p.Spec.RestartPolicy), "Always"},
		"toleration": {string(p.Spec.Tolerations[0].Operator), "Exists"},
	} {
		if got[0] != got[1] {
			t.Errorf("%s is %q, want %q", what, got[0], got[1])
		}
	}
	if len(p.UID) != 32 || p.Spec.Priority == nil || *p.Spec.Priority != 2000001000 {
		t.Errorf("uid %q, priority %v", p.UID, p.Spec.Priority)
	}
	if own := read(t, strings.Replace(manifest(""), "name: etcd", "name: etcd, uid: mine, namespace: kube-system", 1),
		file); own.UID != "mine" || own.Namespace != "kube-system" {
		t.Errorf("got %s %s, want UID mine and Namespace kube-system", own.UID, own.Namespace)
	}
}

// The uid is the hash of content and place: the same Pod at another place, or another Pod at the
// same, is another one.
func TestUID(t *testing.T) {
	at := func(place, source, node string) types.UID {
		return read(t, manifest(""), static.Origin{Source: source, Location: place, Node: node}).UID
	}
	first := at("/a", "file", "n")
	if first != at("/a", "file", "n") {
		t.Error("the same manifest has two uids")
	}
	for what, uid := range map[string]types.UID{"place": at("/b", "file", "n"), "source": at("/a", "http", "n"),
		"node": at("/a", "file", "m"), "content": read(t, manifest("hostNetwork: true"),
			static.Origin{Source: "file", Location: "/a", Node: "n"}).UID} {
		if uid == first {
			t.Errorf("another %s has the same uid", what)
		}
	}
}

func TestRefusedManifests(t *testing.T) {
	for _, tc := range []struct{ name, text, says string }{
		{"empty", " \n", "it is empty"},
		{"no YAML", "{", "couldn't parse as pod"},
		{"another kind", "{kind: Deployment, apiVersion: apps/v1}", `kind "Deployment"`},
		{"no name", "{kind: Pod, apiVersion: v1, spec: {containers: [{name: c}]}}", "name is needed for the pod"},
		{"invalid", "{kind: Pod, apiVersion: v1, metadata: {name: a}}",
			"invalid pod: [spec.containers: Required value]"},
		{"wrong type", "{kind: Pod, apiVersion: v1, metadata: {name: a}, spec: {containers: 3}}",
			"couldn't parse as pod"},
		{"ephemeral container", manifest("ephemeralContainers: [{name: e}]"), "cannot be set on create"},
		{"service account", manifest("serviceAccountName: x"), "static pods may not reference serviceaccounts"},
		{"pull secret", manifest("imagePullSecrets: [{name: x}]"), "static pods may not reference secrets"},
		{"secret volume", manifest("volumes: [{name: v, secret: {secretName: x}}]"),
			"static pods may not reference secrets"},
		{"config map volume", manifest("volumes: [{name: v, configMap: {name: x}}]"),
			"static pods may not reference configmaps"},
		{"claim", manifest("volumes: [{name: v, persistentVolumeClaim: {claimName: x}}]"),
			"static pods may not reference persistentvolumeclaims"},
		{"generic claim", manifest("volumes: [{name: v, ephemeral: {}}]"), "via ephemeral volumes"},
		{"CSI", manifest("volumes: [{name: v, csi: {driver: x}}]"), "csidrivers"},
		{"token", manifest("volumes: [{name: v, projected: {sources: [{serviceAccountToken: {path: t}}]}}]"),
			"serviceaccounts (via projected volumes)"},
		{"projected secret", manifest("volumes: [{name: v, projected: {sources: [{secret: {name: x}}]}}]"),
			"static pods may not reference secrets"},
		{"trust bundle", manifest("volumes: [{name: v, projected: {sources: [{clusterTrustBundle: {path: t}}]}}]"),
			"clustertrustbundles"},
		{"resource claim", manifest("resourceClaims: [{name: x}]"), "resourceclaims"},
		{"variable of a secret",
			strings.Replace(manifest(""), "image: i",
				"image: i, env: [{name: A, valueFrom: {secretKeyRef: {name: x, key: k}}}]", 1), "secrets"},
		{"variables of a config map",
			strings.Replace(manifest(""), "image: i", "image: i, envFrom: [{configMapRef: {name: x}}]", 1),
			"configmaps"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m, err := static.ParsePod([]byte(tc.text), file, rules, now)
			if err == nil || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("read %+v, error %v, want %q", m.Pod, err, tc.says)
			}
		})
	}
}

func TestAcceptedVolumes(t *testing.T) {
	for _, v := range []string{"emptyDir: {}", "hostPath: {path: /x}", "downwardAPI: {}", "nfs: {server: s, path: /p}",
		"image: {reference: r}", "projected: {sources: [{downwardAPI: {}}]}"} {
		if _, err := static.ParsePod([]byte(manifest("volumes: [{name: v, "+v+"}]")), file, rules, now); err != nil {
			t.Errorf("%s: got error %v, want none", v, err)
		}
	}
}

func TestManifestFormats(t *testing.T) {
	for _, tc := range []struct {
		name, text, want, says string
	}{
		{"a Pod", manifest(""), "etcd-node-1", ""},
		{"a list", `{kind: PodList, apiVersion: v1, items: [{metadata: {name: a}, spec: {containers: [{name: c}]}},` +
			` {metadata: {name: b}, spec: {containers: [{name: c}]}}]}`, "a-node-1 b-node-1", ""},
		{"an empty list", `{kind: PodList, apiVersion: v1}`, "", ""},
		{"one bad Pod spoils it",
			`{kind: PodList, apiVersion: v1, items: [{metadata: {name: a}, spec: {containers: [{name: c}]}},` +
				` {metadata: {name: b}}]}`, "", "items[1]: invalid pod"},
		{"neither", `{kind: Node, apiVersion: v1}`, "", "couldn't parse as single or multiple pods"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			list, err := static.Parse([]byte(tc.text), static.Origin{Source: "http", Location: "http://x",
				Node: "node-1"}, rules, now)
			var names []string
			for _, m := range list {
				names = append(names, m.Pod.Name)
			}
			if got := strings.Join(names, " "); err == nil && got != tc.want || (err == nil) != (tc.says == "") ||
				err != nil && !strings.Contains(err.Error(), tc.says) {
				t.Errorf("got %q, error %v", got, err)
			}
		})
	}
}

func TestUnknownFieldsAreReportedAndDropped(t *testing.T) {
	m, err := static.ParsePod([]byte(manifest("hostNetwrk: true")), file, rules, now)
	if err != nil || len(m.UnknownFields) != 1 || !strings.Contains(m.UnknownFields[0], "hostNetwrk") ||
		m.Pod.Spec.HostNetwork {
		t.Errorf("got %v %v, want no error, 1 in UnknownFields, UnknownFields[0] with hostNetwrk and HostNetwork false",
			m.UnknownFields, err)
	}
}

func manifestOf(name, uid, print string, seen time.Time) static.Manifest {
	p := &v1.Pod{}
	p.Name, p.UID, p.Annotations = name, types.UID(uid),
		map[string]string{static.SeenAnnotation: seen.Format(time.RFC3339)}
	return static.Manifest{Pod: p, Hash: print}
}

func TestDiffOfManifests(t *testing.T) {
	a, b := manifestOf("a", "1", "x", now), manifestOf("b", "2", "x", now)
	later := now.Add(time.Hour)
	for _, tc := range []struct {
		name                       string
		had, found                 []static.Manifest
		put, gone, duplicates, has string
	}{
		{"the first reading", nil, []static.Manifest{a, b}, "1 2", "", "", "1 2"},
		{"nothing new", []static.Manifest{a, b}, []static.Manifest{b, a}, "", "", "", "2 1"},
		{"one went", []static.Manifest{a, b}, []static.Manifest{b}, "", "1", "", "2"},
		{"all went", []static.Manifest{a, b}, nil, "", "1 2", "", ""},
		{"another uid is another Pod", []static.Manifest{a}, []static.Manifest{manifestOf("a", "3", "y", now)}, "3",
			"1", "",
			"3"},
		{"the same uid with other content", []static.Manifest{a}, []static.Manifest{manifestOf("a", "1", "y", later)},
			"1", "",
			"", "1"},
		{"two of one name: the one that was there stays", []static.Manifest{b},
			[]static.Manifest{manifestOf("b", "9", "x", now), b}, "", "", "9", "2"},
		{"two of one name, both new: the first", nil, []static.Manifest{manifestOf("b", "9", "x", now), b}, "9", "",
			"2", "9"},
		{"two of one uid", nil, []static.Manifest{a, manifestOf("z", "1", "x", now)}, "1", "", "1", "1"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			d := static.Diff(tc.had, tc.found)
			uids := func(list []*v1.Pod) string {
				var out []string
				for _, p := range list {
					out = append(out, string(p.UID))
				}
				return strings.Join(out, " ")
			}
			var has []*v1.Pod
			for _, m := range d.Current {
				has = append(has, m.Pod)
			}
			if got := [4]string{uids(d.Updated), uids(d.Removed), uids(d.Duplicates), uids(has)}; got != [4]string{
				tc.put, tc.gone, tc.duplicates, tc.has} {
				t.Errorf("put, gone, twins, has: %q, want %v", got, [4]string{
					tc.put, tc.gone, tc.duplicates, tc.has})
			}
		})
	}
	d := static.Diff([]static.Manifest{manifestOf("a", "1", "x", now)},
		[]static.Manifest{manifestOf("a", "1", "y", later)})
	if d.Updated[0].Annotations[static.SeenAnnotation] != now.Format(time.RFC3339) {
		t.Errorf("a changed manifest forgets when it was first seen: got %v, want %v",
			d.Updated[0].Annotations[static.SeenAnnotation], now.Format(time.RFC3339))
	}
}
