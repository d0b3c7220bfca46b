package schedulers

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	v1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gantry-project/gantry/test/instance"
)

// createObjects makes what all clusters share.
func (b *comparison) createObjects(ctx context.Context) error {
	var failed []error
	keep := func(_ any, err error) { failed = append(failed, err) }
	for i, ns := range namespaces {
		keep(b.client.CoreV1().Namespaces().Create(ctx,
			&v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns, Labels: singleLabel("team", string(rune('a'+i)))}},
			metav1.CreateOptions{}))
		keep(b.client.CoreV1().ServiceAccounts(ns).Create(ctx,
			&v1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}, metav1.CreateOptions{}))
	}
	for i, name := range classes {
		keep(b.client.SchedulingV1().PriorityClasses().Create(ctx,
			&schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Value: int32(10 * (i + 1))},
			metav1.CreateOptions{}))
	}
	never := v1.PreemptNever
	keep(b.client.SchedulingV1().PriorityClasses().Create(ctx,
		&schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: modest}, Value: 25, PreemptionPolicy: &never},
		metav1.CreateOptions{}))
	claims, vols, class := volumes()
	keep(b.client.StorageV1().StorageClasses().Create(ctx, class, metav1.CreateOptions{}))
	keep(nil, b.drive(ctx))
	keep(nil, b.ban(ctx))
	made := map[string]*v1.PersistentVolumeClaim{}
	for _, c := range claims {
		was := c.Status
		c, err := b.client.CoreV1().PersistentVolumeClaims(c.Namespace).Create(ctx, c, metav1.CreateOptions{})
		if err == nil {
			c.Status = was
			made[c.Namespace+"/"+c.Name] = c
			_, err = b.client.CoreV1().PersistentVolumeClaims(c.Namespace).UpdateStatus(ctx, c, metav1.UpdateOptions{})
		}
		keep(nil, err)
	}
	for _, v := range vols {
		was := v.Status
		if r := v.Spec.ClaimRef; r != nil && made[r.Namespace+"/"+r.Name] != nil {
			r.UID = made[r.Namespace+"/"+r.Name].UID
		}
		v, err := b.client.CoreV1().PersistentVolumes().Create(ctx, v, metav1.CreateOptions{})
		if err == nil {
			v.Status = was
			_, err = b.client.CoreV1().PersistentVolumes().UpdateStatus(ctx, v, metav1.UpdateOptions{})
		}
		keep(nil, err)
	}
	return errors.Join(failed...)
}

// ban has the API server refuse the bindings of some Pods, and returns when it does.
func (b *comparison) ban(ctx context.Context) error {
	policy := &admissionv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: banned},
		Spec: admissionv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{
				{RuleWithOperations: admissionv1.RuleWithOperations{
					Operations: []admissionv1.OperationType{admissionv1.Create},
					Rule: admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"},
						Resources: []string{"pods/binding"}}}}}},
			Validations: []admissionv1.Validation{{Expression: "!object.metadata.name.startsWith('" + banned + "')",
				Message: "nobody binds this"}}}}
	_, err := b.client.AdmissionregistrationV1().ValidatingAdmissionPolicies().Create(ctx, policy,
		metav1.CreateOptions{})
	_, tied := b.client.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings().Create(ctx,
		&admissionv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: banned},
			Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{PolicyName: banned,
				ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny}}}, metav1.CreateOptions{})
	if err := errors.Join(err, tied); err != nil {
		return err
	}
	return instance.Poll(ctx, 10*time.Millisecond, func() error {
		err := b.client.CoreV1().Pods(namespaces[0]).Bind(ctx, &v1.Binding{ObjectMeta: metav1.ObjectMeta{Name: banned},
			Target: v1.ObjectReference{Name: "none"}}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err == nil || !strings.Contains(err.Error(), "nobody binds this") {
			return fmt.Errorf("not refused yet: %w", err)
		}
		return nil
	})
}

// fill makes a cluster's nodes, what runs on them, and budgets.
func (b *comparison) fill(ctx context.Context, d objectGenerator, nodes int) error {
	for i := range nodes {
		n := d.node(i)
		made, err := b.client.CoreV1().Nodes().Create(ctx, n, metav1.CreateOptions{})
		if err != nil {
			return err
		}
		made.Spec = n.Spec // without the taint that new nodes get
		if _, err := b.client.CoreV1().Nodes().Update(ctx, made, metav1.UpdateOptions{}); err != nil {
			return err
		}
	}
	for i := range d.IntN(4 * nodes) {
		if err := b.create(ctx, d.runningPod(i, nodes)); err != nil {
			return err
		}
	}
	for _, x := range d.budgets() {
		was := x.Status
		made, err := b.client.PolicyV1().PodDisruptionBudgets(x.Namespace).Create(ctx, x, metav1.CreateOptions{})
		if err != nil {
			return err
		}
		made.Status = was
		if _, err := b.client.PolicyV1().PodDisruptionBudgets(x.Namespace).UpdateStatus(ctx, made,
			metav1.UpdateOptions{}); err != nil {
			return err
		}
	}
	return b.stock(ctx, d, nodes)
}

// create makes a Pod with its status; a copy of one that was there is made as new.
func (b *comparison) create(ctx context.Context, p *v1.Pod) error {
	p = p.DeepCopy()
	if p.UID != "" {
		merged(p)
	}
	p.ResourceVersion, p.UID, p.Spec.Priority = "", "", nil
	was := p.Status
	made, err := b.client.CoreV1().Pods(p.Namespace).Create(ctx, p, metav1.CreateOptions{})
	if err != nil || was.StartTime == nil {
		return err
	}
	made.Status.StartTime, made.Status.Phase = was.StartTime, was.Phase
	_, err = b.client.CoreV1().Pods(p.Namespace).UpdateStatus(ctx, made, metav1.UpdateOptions{})
	return err
}

// merged forgets label keys whose values the API server put into the selectors when the Pod was
// first made.
func merged(p *v1.Pod) {
	for i := range p.Spec.TopologySpreadConstraints {
		p.Spec.TopologySpreadConstraints[i].MatchLabelKeys = nil
	}
	forget := func(required []v1.PodAffinityTerm, preferred []v1.WeightedPodAffinityTerm) {
		for i := range required {
			required[i].MatchLabelKeys = nil
		}
		for i := range preferred {
			preferred[i].PodAffinityTerm.MatchLabelKeys = nil
		}
	}
	if a := p.Spec.Affinity; a != nil && a.PodAffinity != nil {
		forget(a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution,
			a.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	if a := p.Spec.Affinity; a != nil && a.PodAntiAffinity != nil {
		forget(a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution,
			a.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution)
	}
}

// watches returns when a scheduler watches: it refused a Pod while there is no node. A scheduler
// that lists nodes which are there already takes them in any order, and of an image that nodes tell
// different sizes of the first one counts.
func (b *comparison) watches(ctx context.Context, o *schedulerRun) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespaces[0], Name: "first-" + o.name},
		Spec: v1.PodSpec{SchedulerName: o.name + "-plain",
			Containers: []v1.Container{{Name: "c", Image: "example.com/none:1"}}}}
	if err := b.create(ctx, p); err != nil {
		return err
	}
	err := instance.Poll(ctx, 5*time.Millisecond, func() error {
		now, err := b.client.CoreV1().Pods(p.Namespace).Get(ctx, p.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if len(now.Status.Conditions) == 0 {
			return fmt.Errorf("%s: not refused by the scheduler yet", p.Name)
		}
		return nil
	})
	now := int64(0)
	return errors.Join(err, b.client.CoreV1().Pods(p.Namespace).Delete(ctx, p.Name,
		metav1.DeleteOptions{GracePeriodSeconds: &now}))
}

// waitForNodes returns when a scheduler knows all nodes of this cluster: it bound a Pod that only
// the last one takes.
func (b *comparison) waitForNodes(ctx context.Context, o *schedulerRun, nodes int, seed uint64) error {
	label := fmt.Sprintf("%d-%s", seed, o.name)
	// Every node changes, the last one last: how many nodes have an image is counted when a node
	// changes, by both.
	for i := range nodes {
		n, err := b.client.CoreV1().Nodes().Get(ctx, fmt.Sprintf("n%d", i), metav1.GetOptions{})
		if err != nil {
			return err
		}
		n.Labels["cluster"] = fmt.Sprintf("%s-%d", label, nodes-1-i)
		if _, err := b.client.CoreV1().Nodes().Update(ctx, n, metav1.UpdateOptions{}); err != nil {
			return err
		}
	}
	label += "-0"
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespaces[0], Name: "seen-" + label},
		Spec: v1.PodSpec{SchedulerName: o.name + "-plain",
			NodeSelector: singleLabel("cluster", label),
			Containers:   []v1.Container{{Name: "c", Image: "example.com/none:1"}},
			Tolerations:  []v1.Toleration{{Operator: v1.TolerationOpExists}}}}
	if err := b.create(ctx, p); err != nil {
		return err
	}
	// refused or bound: either is an answer about the node with this label, as it says so by name
	// only when the label is known
	err := instance.Poll(ctx, 5*time.Millisecond, func() error {
		now, err := b.client.CoreV1().Pods(p.Namespace).Get(ctx, p.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, c := range now.Status.Conditions {
			if c.Type == v1.PodScheduled && (c.Status == v1.ConditionTrue || strings.Contains(c.Message,
				"Too many pods") || strings.Contains(c.Message, "anti-affinity")) {
				return nil
			}
		}
		return errors.New("not judged with the last node")
	})
	now := int64(0)
	return errors.Join(err, b.client.CoreV1().Pods(p.Namespace).Delete(ctx, p.Name,
		metav1.DeleteOptions{GracePeriodSeconds: &now}))
}

func (b *comparison) pods(ctx context.Context) (map[string]*v1.Pod, error) {
	out := map[string]*v1.Pod{}
	list, err := b.client.CoreV1().Pods("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	for i := range list.Items {
		if p := &list.Items[i]; p.DeletionTimestamp == nil {
			out[p.Namespace+"/"+p.Name] = p
		}
	}
	return out, nil
}

func (b *comparison) clear(ctx context.Context) error {
	now, failed := int64(0), []error{}
	for _, ns := range namespaces {
		failed = append(failed, b.client.CoreV1().Pods(ns).DeleteCollection(ctx,
			metav1.DeleteOptions{GracePeriodSeconds: &now}, metav1.ListOptions{}),
			b.client.PolicyV1().PodDisruptionBudgets(ns).DeleteCollection(ctx, metav1.DeleteOptions{},
				metav1.ListOptions{}))
	}
	failed = append(failed, b.unstock(ctx))
	return errors.Join(append(failed, b.client.CoreV1().Nodes().DeleteCollection(ctx, metav1.DeleteOptions{},
		metav1.ListOptions{}))...)
}
