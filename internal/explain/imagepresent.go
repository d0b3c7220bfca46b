package explain

import (
	"fmt"
	"slices"
	"strings"

	"github.com/distribution/reference"
	corev1 "k8s.io/api/core/v1"
)

// nodeImages says which nodes have an image that cannot be pulled.
type nodeImages struct {
	onNode     bool     // the Pod's node has the image
	otherTags  []string // other tags of the repository that the Pod's node has, sorted
	otherNodes []string // other nodes that have the image, sorted
}

// normalized returns the full reference: docker.io/library/busybox:latest for busybox, and without
// the tag if there is a digest. ok is false for invalid names.
func normalized(image string) (ref, repository string, ok bool) {
	named, err := reference.ParseNormalizedNamed(image)
	if err != nil {
		return "", "", false
	}
	if d, ok := named.(reference.Digested); ok {
		return named.Name() + "@" + d.Digest().String(), named.Name(), true
	}
	return reference.TagNameOnly(named).String(), named.Name(), true
}

// imagePresence compares an image with those of the Pod's node and of other nodes. onNode are
// further images of the Pod's node, from its runtime.
func imagePresence(image string, node *corev1.Node, onNode []string, others []*corev1.Node) nodeImages {
	ref, repository, ok := normalized(image)
	if !ok {
		return nodeImages{}
	}
	var out nodeImages
	name := ""
	if node != nil {
		name, onNode = node.Name, slices.Concat(onNode, imageNames(node))
	}
	for _, n := range onNode {
		r, repo, ok := normalized(n)
		switch {
		case !ok || repo != repository:
		case r == ref:
			out.onNode = true
		case !strings.Contains(r, "@"):
			out.otherTags = append(out.otherTags, strings.TrimPrefix(r, repo+":"))
		}
	}
	slices.Sort(out.otherTags)
	out.otherTags = slices.Compact(out.otherTags)
	for _, n := range others {
		if n.Name == name {
			continue
		}
		if slices.ContainsFunc(imageNames(n),
			func(x string) bool { r, _, ok := normalized(x); return ok && r == ref }) {
			out.otherNodes = append(out.otherNodes, n.Name)
		}
	}
	slices.Sort(out.otherNodes)
	return out
}

func imageNames(n *corev1.Node) []string {
	var out []string
	for _, i := range n.Status.Images {
		out = append(out, i.Names...)
	}
	return out
}

// NeedsLocalImages reports whether Why needs the images of the Pod's node.
func NeedsLocalImages(p *corev1.Pod) bool {
	return p != nil && slices.ContainsFunc(containers(p), func(c container) bool {
		w := c.waiting()
		return w != nil && slices.Contains(imageReasons, w.Reason)
	})
}

// reportPresence adds which nodes have the image already, and how to use it without pulling.
func (p imagePull) reportPresence(a *Answer) {
	var others []*corev1.Node
	if p.input.ClusterContext != nil {
		others = p.input.ClusterContext.Nodes
	}
	found, image, node := imagePresence(p.container.spec.Image, p.input.Node, p.input.Images, others),
		p.container.spec.Image, p.input.Pod.Spec.NodeName
	if found.onNode && !strings.HasSuffix(a.Cause, ".") {
		a.Cause += "."
	}
	switch policy := p.container.spec.ImagePullPolicy; {
	case found.onNode && policy == corev1.PullAlways:
		a.Cause += fmt.Sprintf(" Node %s has this image already, but imagePullPolicy Always%s asks the registry at "+
			"each start; IfNotPresent would use what is there.", node, p.pullPolicyDefault())
		a.Fixes = append(
			[]Fix{editedContainer(p.input, p.container.spec.Name,
				"use the image that is on "+node+": imagePullPolicy IfNotPresent",
				func(c *corev1.Container) { c.ImagePullPolicy = corev1.PullIfNotPresent })}, a.Fixes...)
		return
	case found.onNode && p.refused():
		a.Cause += fmt.Sprintf(" Node %s has this image by now; one that was fetched with credentials is given only "+
			"to Pods whose own are accepted.", node)
		return
	case found.onNode:
		a.Cause += fmt.Sprintf(" Node %s has this image by now; imagePullPolicy %s uses it at the next try.", node,
			policy)
		return
	}
	if len(found.otherTags) > 0 {
		repository := strings.TrimSuffix(image, ":"+p.tag)
		shown := found.otherTags[:min(len(found.otherTags), 5)]
		a.Facts = append(a.Facts, fmt.Sprintf("node %s has the repository's %s %s, not %s", node,
			plural(len(shown), "tag", "tags"), joinList(shown), p.tag))
		near := closestTags(p.tag, found.otherTags)[0]
		a.Fixes = append(a.Fixes,
			p.setImageFix(fmt.Sprintf("or use %s:%s, which is on %s%s", repository, near, node, p.pullPolicyNote()),
				repository+":"+near))
	}
	if len(found.otherNodes) > 0 {
		shown := found.otherNodes[:min(len(found.otherNodes), 5)]
		a.Facts = append(a.Facts, fmt.Sprintf("the image is on %s %s, not on %s", plural(len(shown), "node", "nodes"),
			joinList(shown), node))
		a.Fixes = append(a.Fixes,
			Fix{Description: fmt.Sprintf("or import it on %s from an archive of %s (gantry image import), or place "+
				"the Pod where it is%s", node, shown[0], p.pullPolicyNote())})
	}
}

// pullPolicyDefault explains a pull policy Always that nobody set, if that can be known: it is the
// API server's default for the tag latest.
func (p imagePull) pullPolicyDefault() string {
	if p.tag == "latest" && !strings.Contains(p.container.spec.Image, "@") {
		return " (the default for the tag latest)"
	}
	return ""
}

// pullPolicyNote mentions a pull policy with which the registry is contacted anyway.
func (p imagePull) pullPolicyNote() string {
	if p.container.spec.ImagePullPolicy == corev1.PullAlways {
		return ", with imagePullPolicy IfNotPresent"
	}
	return ""
}

func plural(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}
