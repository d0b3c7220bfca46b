package finding

import (
	"slices"
	"strings"
	"testing"
)

// Of a name that is not there it is said what was probably meant: a near name, the same in another
// namespace, as another kind, what makes such names. Each row is a cluster, what is asked about,
// the near name, what else may be asked about, and words.
func TestWhatIsNotThereIsComparedWithWhatThereIs(t *testing.T) {
	const shop = "{apiVersion: v1, kind: Namespace, metadata: {name: shop}}\n---\n"
	pod := func(ns, name, owner string) string {
		refs := ""
		if owner != "" {
			kind, of, _ := strings.Cut(owner, " ")
			refs = ", ownerReferences: [{kind: " + kind + ", name: " + of + ", uid: " + of + ", controller: true}]"
		}
		return "{apiVersion: v1, kind: Pod, metadata: {name: " + name + ", namespace: " + ns + refs + "}}\n---\n"
	}
	set := func(replicas string) string {
		return "{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: db, namespace: shop, uid: db}, spec: " +
			"{replicas: " + replicas + "}}\n---\n"
	}
	const deployment = "{apiVersion: apps/v1, kind: Deployment, metadata: {name: web, namespace: shop, uid: web}}\n" +
		"---\n"
	for _, c := range []struct{ cluster, of, want, asks, words string }{
		{shop + pod("shop", "orders", ""), "Pod shop ordes", "orders", "pod/orders -n shop", "differs by one letter"},
		{shop + pod("shop", "orders", "") + pod("shop", "odes", ""), "Pod shop ordes", "odes",
			"pod/odes -n shop;pod/orders -n shop", "There is a Pod orders"},
		{shop + pod("other", "orders", ""), "Pod shop orders", "", "pod/orders -n other", "is in namespace other"},
		{shop + deployment, "Pod shop web", "", "deployment/web -n shop", "There is a Deployment of that name"},
		{shop + deployment, "Pod shop wbe", "", "deployment/web -n shop", "There is a Deployment web"},
		{shop + deployment, "StatefulSet shop web", "", "deployment/web -n shop", "a Deployment of that name"},
		{shop + deployment + pod("shop", "web-6c5d8f9b7-abcde", "Deployment web"), "Pod shop web-5d4f7c8b9-xyz12", "",
			"deployment/web -n shop", "makes such names, another for each; it has web-6c5d8f9b7-abcde now"},
		{shop + set("2") + pod("shop", "db-0", "StatefulSet db"), "Pod shop db-7", "db-0",
			"pod/db-0 -n shop;statefulset/db -n shop", "ordinals from 0 to 1"},
		{shop + pod("shop", "orders", ""), "Pod shpo orders", "shop", "pod/orders -n shop", "no namespace shpo either"},
		{"{apiVersion: v1, kind: Node, metadata: {name: node-1}}", "Node - node-2", "node-1", "node/node-1",
			"There is a Node node-1"},
		{shop, "Service shop web", "", "", "There is no Service web in namespace shop."},
	} {
		parts := strings.Fields(c.of)
		o := Object{parts[0], strings.TrimPrefix(parts[1], "-"), parts[2]}
		f, toCome := Absent(clusterOf(t, c.cluster), o)
		if f.Code != "NoSuchObject" || f.Severity != Broken || f.Want != c.want || toCome != nil ||
			!strings.Contains(f.Message, c.words) {
			t.Errorf("%s: got %+v, want %q and words %q", c.of, f, c.want, c.words)
		}
		var asks []string
		for _, r := range f.Remedies {
			for _, run := range r.Run {
				if about, ok := strings.CutPrefix(run, "gantry why "); ok {
					asks = append(asks, about)
				}
			}
		}
		for want := range strings.SplitSeq(c.asks, ";") {
			if want != "" && !slices.Contains(asks, want) {
				t.Errorf("%s: got questions %q, want %q", c.of, asks, want)
			}
		}
		if len(f.Remedies) == 0 {
			t.Errorf("%s: got no remedy, want one, if it is only a list", c.of)
		}
	}
	f, toCome := Absent(clusterOf(t, shop+set("2")+pod("shop", "db-0", "StatefulSet db")),
		Object{"Pod", "shop", "db-1"})
	if toCome == nil || toCome.Name != "db" || f.Severity != Note {
		t.Errorf("of an ordinal that is to come: got %+v and %v, want a note and StatefulSet db", f, toCome)
	}
}
