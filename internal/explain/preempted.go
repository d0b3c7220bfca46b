package explain

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"

	"github.com/gantry-project/gantry/internal/explain/shellquote"
	"github.com/gantry-project/gantry/internal/explain/whatif"
	"github.com/gantry-project/gantry/internal/journal"
)

// preempted explains a Pod that was preempted.
func preempted(in In) *Answer {
	if in.Pod != nil && in.Pod.DeletionTimestamp == nil {
		return nil
	}
	f, at, ok := newest[journal.Preempted](in, nil)
	if !ok {
		return nil
	}
	a := &Answer{State: "gone: preempted", Since: at}
	if in.Pod != nil {
		a.State = "Terminating: preempted"
		if t := terminating(in); t != nil {
			a.Next = t.Cause
			a.Facts = append(a.Facts, t.Facts...)
		}
	}
	namespace, name, _ := strings.Cut(f.By, "/")
	who := name
	if namespace != in.Ref.Namespace {
		who = f.By
	}
	a.Cause = fmt.Sprintf("The Pod (%s, priority %d) was preempted by the scheduler for %s (priority %d)", in.Ref.Name,
		f.Own, who, f.Priority)
	var wants []string
	for _, x := range f.Shortages {
		wants = append(wants, fmt.Sprintf("%s of %s where %s of %s were free", amount(x.Resource, x.Requested),
			x.Resource, amount(x.Resource, max(x.Available-x.Used, 0)), amount(x.Resource, x.Available)))
	}
	if len(wants) > 0 {
		a.Cause += fmt.Sprintf(", which wanted %s on %s.", strings.Join(wants, " and "), f.Node)
	} else {
		a.Cause += fmt.Sprintf(", which fits on %s only without it.", f.Node)
	}
	a.Cause += overruledBudgets(f)
	a.Facts = append(a.Facts, f.Line())
	if f.Victims > 1 {
		a.Facts = append(a.Facts, fmt.Sprintf("%d Pods had to leave %s together", f.Victims, f.Node))
	}
	a.Fixes = avoidPreemption(in, f)
	return a
}

// overruledBudgets lists the PodDisruptionBudgets that preemption violated, and why.
func overruledBudgets(f journal.Preempted) string {
	if len(f.Budgets) == 0 {
		return ""
	}
	var budgets []string
	for _, b := range f.Budgets {
		budgets = append(budgets, fmt.Sprintf("%s allowed %d disruptions", b.Name, b.Allowed))
	}
	s := fmt.Sprintf(" Its PodDisruptionBudget %s, but that is best effort for preemption, which only tries to keep "+
		"budgets", strings.Join(budgets, " and "))
	if f.Candidates <= 1 {
		return s + fmt.Sprintf(": %s was the only candidate.", f.Node)
	}
	return s + fmt.Sprintf(": none of the %d candidate nodes would have done less harm.", f.Candidates)
}

// avoidPreemption returns fixes with which the Pod would have stayed.
func avoidPreemption(in In, f journal.Preempted) []Fix {
	namespace, name, _ := strings.Cut(f.By, "/")
	class := classOf(in, f)
	equal := fmt.Sprintf("give the Pod a priority of at least %d in its manifest: equal priority is never preempted; "+
		"then make it anew", f.Priority)
	fixes := textFixes(equal)
	if class != "" {
		fixes = []Fix{
			manifestFix(
				fmt.Sprintf("give the Pod the class %s in its manifest (priority %d), then make it anew: equal "+
					"priority is never preempted", class, f.Priority),
				manifestOf("pod", in.Ref.Name, in.Ref.Namespace), fmt.Sprintf(`{"spec":{"priorityClassName":%s}}`,
					shellquote.JSON(class)))}
	}
	if p := in.ClusterContext.pod(namespace, name); p != nil {
		if r, ok := whatif.LowerRequests(p, f.Shortages); ok {
			fixes = append(fixes,
				Fix{Description: r.Description + " in " + name + ": it then fits beside this Pod, which is to be " +
					"made anew", Run: r.Run})
		}
	} else if len(f.Shortages) > 0 {
		x := f.Shortages[0]
		fixes = append(fixes,
			textFixes(fmt.Sprintf("let %s ask for %s of %s, which was free", name,
				amount(x.Resource, max(x.Available-x.Used, 0)), x.Resource))...)
	}
	if class != "" {
		never := manifestFix(
			fmt.Sprintf("set preemptionPolicy Never on the class %s: its Pods then wait for room instead of taking "+
				"it; Pods made before keep theirs", class), "priorityclass/"+class, `{"preemptionPolicy":"Never"}`)
		never.Run = []string{remadeClass(class, string(corev1.PreemptNever))}
		fixes = append(fixes, never)
	}
	return fixes
}

// manifestOf names an object as kubectl does.
func manifestOf(kind, name, namespace string) string {
	if namespace == "default" {
		return kind + "/" + name
	}
	return fmt.Sprintf("%s/%s -n %s", kind, name, namespace)
}

// classOf names the preemptor's PriorityClass, unless other Pods may not use it.
func classOf(in In, f journal.Preempted) string {
	if f.Class != "" {
		return f.Class
	}
	var c *schedulingv1.PriorityClass
	if in.ClusterContext != nil {
		for _, other := range in.ClusterContext.Classes {
			if other.Value == f.Priority && (c == nil || other.Name < c.Name) {
				c = other
			}
		}
	}
	if c == nil {
		return ""
	}
	return c.Name
}

// NeedsNamespaceContext reports whether Why needs the namespace's objects for a Pod that is gone.
func NeedsNamespaceContext(in In) bool {
	_, _, ok := newest[journal.Preempted](in, nil)
	return ok
}
