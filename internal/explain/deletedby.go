package explain

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/gantry-project/gantry/internal/explain/finding"
	"github.com/gantry-project/gantry/internal/journal"
)

// deleter is a controller that deletes Pods, the rule by which it does, and the field that leads to
// it.
type deleter struct {
	user  string // end of the user's name in requests
	kind  string // whose field; empty: the Pod's
	field string
	rule  string
}

// deleters are Kubernetes' own.
var deleters = []deleter{
	{":generic-garbage-collector", "", "metadata.ownerReferences",
		"its owner does not exist any more, and the garbage collector deletes what nobody owns"},
	{":ttl-after-finished-controller", "Job", "spec.ttlSecondsAfterFinished",
		"its Job ended longer ago than ttlSecondsAfterFinished says"},
	{":cronjob-controller", "CronJob", "spec.successfulJobsHistoryLimit",
		"its CronJob keeps no more Jobs than its history limits say, or replaced the Job (concurrencyPolicy)"},
	{":statefulset-controller", "StatefulSet", "spec.replicas",
		"its StatefulSet wants fewer Pods, or has a newer template"},
	{":replicaset-controller", "ReplicaSet", "spec.replicas", "its ReplicaSet wants fewer Pods"},
	{":daemon-set-controller", "DaemonSet", "spec.template.spec",
		"its DaemonSet does not want it on its node, or has a newer template"},
	{":job-controller", "Job", "spec.parallelism", "its Job needs it no more: it has ended, is suspended, or runs " +
		"fewer"},
	{":namespace-controller", "Namespace", "metadata.deletionTimestamp", "its namespace was deleted"},
	{":pod-garbage-collector", "", "spec.nodeName",
		"its node does not exist any more, or it had ended and there were too many such"},
	{":node-controller", "", "spec.tolerations", "its node has a taint that it does not tolerate"},
	{":taint-eviction-controller", "", "spec.tolerations", "its node has a taint that it does not tolerate"},
}

var (
	wantsPods  = regexp.MustCompile(`^(\S+) wants (\d+) Pods(?: with (\S+))?$`)
	taintWords = regexp.MustCompile(
		`^taint (\S+)(?: of node (\S+))? is (?:not tolerated|tolerated for (\d+) s)`)
)

// deletionFinding is the rule and field by which a Pod that is gone was deleted; ok is false when a
// person did it, or nobody recorded it.
func deletionFinding(in In) (f finding.Finding, ok bool) {
	f = finding.Finding{Code: "Deleted", Severity: finding.Note, Stage: finding.StageChange, Object: in.object()}
	acted, _, byController := newest[journal.Acted](in, func(f journal.Acted) bool {
		return strings.Contains(f.Action, "delet") || strings.Contains(f.Action, "remov")
	})
	if byController {
		if m := wantsPods.FindStringSubmatch(acted.Message); m != nil {
			f.Object = finding.Object{Kind: "ReplicaSet", Namespace: in.Ref.Namespace, Name: m[1]}
			f.Field, f.Value, f.Related = "spec.replicas", m[2], []finding.Object{in.object()}
			f.Message = fmt.Sprintf("ReplicaSet %s wants %s Pods, and there were more.", m[1], m[2])
			if !strings.HasPrefix(in.Ref.Name, m[1]+"-") {
				f.Message += adoptedText(in.Ref.Name, m[1], m[3])
			}
			return f, true
		}
		if m := taintWords.FindStringSubmatch(acted.Message); m != nil {
			f.Field, f.Want = "spec.tolerations", m[1]
			f.Message = fmt.Sprintf("Its node had the taint %s, and the Pod tolerates that no longer.", m[1])
			if m[2] != "" {
				f.Related = []finding.Object{{Kind: "Node", Name: m[2]}}
			}
			if m[3] != "" {
				f.Value = m[3]
				f.Numbers = map[string]string{"tolerationSeconds": m[3]}
			}
			return f, true
		}
	}
	requested, _, asked := newest[journal.Deleting](in, nil)
	for _, d := range deleters {
		if !(asked && strings.HasSuffix(requested.User, d.user)) &&
			!(byController && (strings.HasSuffix(d.user, ":"+acted.Controller) || acted.Controller == "podgc" &&
				d.user == ":pod-garbage-collector")) {
			continue
		}
		f.Field = d.field
		f.Message = strings.ToUpper(d.rule[:1]) + d.rule[1:] + "."
		if d.kind != "" {
			f.Object, f.Related = ownerByName(in.Ref, d.kind), []finding.Object{in.object()}
		}
		if bound, _, known := newest[journal.Bound](in, nil); known && d.field == "spec.nodeName" {
			f.Value = bound.Node
			f.Related = []finding.Object{{Kind: "Node", Name: bound.Node}}
		}
		return f, true
	}
	return f, false
}

// adoptedText is a sentence, with a space before it, about a Pod that a ReplicaSet did not make:
// its own have the ReplicaSet's name and a part of their own.
func adoptedText(pod, set, selector string) string {
	if selector != "" {
		selector = " (" + selector + ")"
	}
	return fmt.Sprintf(" Pod %s was not made by it: its labels match the whole selector%s and it had no "+
		"controller, so %s adopted it and counted it; of a surplus the youngest and those that are not ready go "+
		"first.", pod, selector,
		set)
}

// ownerByName is the owner of a kind that made a Pod, by the Pod's name: owners append a part to
// theirs, and a CronJob's Job another.
func ownerByName(r journal.Ref, kind string) finding.Object {
	name := r.Name
	parts := 1
	switch kind {
	case "Namespace":
		return finding.Object{Kind: kind, Name: r.Namespace}
	case "CronJob":
		parts = 2
	}
	for range parts {
		if i := strings.LastIndex(name, "-"); i > 0 {
			name = name[:i]
		}
	}
	return finding.Object{Kind: kind, Namespace: r.Namespace, Name: name}
}
