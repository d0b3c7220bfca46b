package batch

import (
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gantry-project/gantry/internal/apiserver/registry/podspec"
	"github.com/gantry-project/gantry/internal/apiserver/registry/typed"
)

// Limits of Jobs; beyond highCompletions with a limit per index the tighter ones hold.
const (
	maxParallelism                   = 100000
	highCompletions                  = 100000
	maxParallelismForHighCompletions = 10000
	maxManagedByLength               = 63
)

func checkJob(j, previous *batchv1.Job) field.ErrorList {
	var f typed.Errors
	if previous == nil {
		checkGenerated(&f, j)
	}
	checkSpec(&f, &j.Spec)
	if n := j.Spec.Completions; indexed(&j.Spec) && n != nil && *n > 0 {
		last := fmt.Sprintf("%s-%d", j.Name, *n-1)
		if len(utilvalidation.IsDNS1123Label(last)) > 0 {
			f.Invalid(field.NewPath("metadata", "name"), j.Name,
				"will not able to create pod with invalid DNS label: "+last)
		}
	}
	if previous == nil {
		return f.List()
	}
	// Upstream validates the spec once more on updates, so findings come twice.
	checkSpec(&f, &j.Spec)
	checkCompletions(&f, &j.Spec, &previous.Spec)
	f.Immutable(spec().Child("selector"), j.Spec.Selector, previous.Spec.Selector)
	checkTemplateChange(&f, j, previous)
	f.Immutable(spec().Child("completionMode"), j.Spec.CompletionMode, previous.Spec.CompletionMode)
	f.ImmutableGoFields(spec().Child("podFailurePolicy"), j.Spec.PodFailurePolicy, previous.Spec.PodFailurePolicy)
	f.Immutable(spec().Child("backoffLimitPerIndex"), j.Spec.BackoffLimitPerIndex, previous.Spec.BackoffLimitPerIndex)
	f.Immutable(spec().Child("managedBy"), j.Spec.ManagedBy, previous.Spec.ManagedBy)
	f.ImmutableGoFields(spec().Child("successPolicy"), j.Spec.SuccessPolicy, previous.Spec.SuccessPolicy)
	return f.List()
}

func indexed(s *batchv1.JobSpec) bool {
	return s.CompletionMode != nil && *s.CompletionMode == batchv1.IndexedCompletion
}

// checkGenerated wants the labels and the selector that generateSelector makes, unless a client
// chose others by hand.
func checkGenerated(f *typed.Errors, j *batchv1.Job) {
	if typed.Deref(j.Spec.ManualSelector) || j.Spec.Selector == nil {
		return
	}
	if j.UID == "" {
		f.Required(field.NewPath("metadata", "uid"), "")
	}
	path, expected := spec().Child("template", "metadata", "labels"), labels.Set{}
	for _, kv := range generatedLabels(j) {
		expected[kv[0]] = kv[1]
		have, ok := j.Spec.Template.Labels[kv[0]]
		switch {
		case !ok:
			f.Required(path.Key(kv[0]), fmt.Sprintf("must be '%s'", kv[1]))
		case have != kv[1]:
			f.Invalid(path.Key(kv[0]), j.Spec.Template.Labels, fmt.Sprintf("must be '%s'", kv[1]))
		}
	}
	if s, err := metav1.LabelSelectorAsSelector(j.Spec.Selector); err == nil && !s.Matches(expected) {
		f.Invalid(spec().Child("selector"), j.Spec.Selector, "`selector` not auto-generated")
	}
}

// checkSpec validates a Job's own spec: what a template of Jobs has too, and the selector.
func checkSpec(f *typed.Errors, s *batchv1.JobSpec) {
	checkWork(f, s, spec())
	if s.Selector == nil {
		f.Required(spec().Child("selector"), "")
	} else {
		f.LabelSelector(spec().Child("selector"), s.Selector)
	}
	if sel, err := metav1.LabelSelectorAsSelector(s.Selector); err == nil &&
		!sel.Matches(labels.Set(s.Template.Labels)) {
		f.Invalid(spec().Child("template", "metadata", "labels"), s.Template.Labels,
			"`selector` does not match template `labels`")
	}
}

// checkWork validates the spec of a Job or of a CronJob's Jobs.
func checkWork(f *typed.Errors, s *batchv1.JobSpec, path *field.Path) {
	f.NotNegativeIf(path.Child("parallelism"), s.Parallelism)
	f.NotNegativeIf(path.Child("completions"), s.Completions)
	if s.ActiveDeadlineSeconds != nil {
		f.NotNegative(path.Child("activeDeadlineSeconds"), *s.ActiveDeadlineSeconds)
	}
	f.NotNegativeIf(path.Child("backoffLimit"), s.BackoffLimit)
	f.NotNegativeIf(path.Child("ttlSecondsAfterFinished"), s.TTLSecondsAfterFinished)
	f.NotNegativeIf(path.Child("backoffLimitPerIndex"), s.BackoffLimitPerIndex)
	f.NotNegativeIf(path.Child("maxFailedIndexes"), s.MaxFailedIndexes)
	if s.MaxFailedIndexes != nil && s.BackoffLimitPerIndex == nil {
		f.Required(path.Child("backoffLimitPerIndex"), "when maxFailedIndexes is specified")
	}
	if m := s.ManagedBy; m != nil {
		f.Add(utilvalidation.IsDomainPrefixedPath(path.Child("managedBy"), *m)...)
		if len(*m) > maxManagedByLength {
			f.Add(field.TooLong(path.Child("managedBy"), *m, maxManagedByLength))
		}
	}
	checkMode(f, s, path)
	if s.PodFailurePolicy != nil {
		checkFailurePolicy(f, s, path.Child("podFailurePolicy"))
	}
	switch {
	case s.SuccessPolicy == nil:
	case !indexed(s):
		f.Invalid(path.Child("successPolicy"), typed.GoFields(*s.SuccessPolicy), "requires indexed completion mode")
	default:
		checkSuccessPolicy(f, s, path.Child("successPolicy"))
	}
	checkReplacement(f, s, path.Child("podReplacementPolicy"))
	f.Add(podspec.ValidatePodTemplateSpec(&s.Template, path.Child("template"))...)
	switch p, at := s.Template.Spec.RestartPolicy, path.Child("template", "spec", "restartPolicy"); {
	case p == corev1.RestartPolicyAlways || p == "":
		f.Required(at, `valid values: "OnFailure", "Never"`)
	case p != corev1.RestartPolicyOnFailure && p != corev1.RestartPolicyNever:
		f.Add(field.NotSupported(at, p, []corev1.RestartPolicy{corev1.RestartPolicyOnFailure,
			corev1.RestartPolicyNever}))
	case s.PodFailurePolicy != nil && p != corev1.RestartPolicyNever:
		f.Invalid(at, p, `only "Never" is supported when podFailurePolicy is specified`)
	}
}

// checkMode validates what indexed Jobs alone may have, and how much of it.
func checkMode(f *typed.Errors, s *batchv1.JobSpec, path *field.Path) {
	if m := s.CompletionMode; m != nil && *m != batchv1.NonIndexedCompletion && *m != batchv1.IndexedCompletion {
		f.Add(field.NotSupported(path.Child("completionMode"), *m,
			[]batchv1.CompletionMode{batchv1.NonIndexedCompletion, batchv1.IndexedCompletion}))
		return
	}
	if !indexed(s) {
		if n := s.BackoffLimitPerIndex; n != nil {
			f.Invalid(path.Child("backoffLimitPerIndex"), *n, "requires indexed completion mode")
		}
		if n := s.MaxFailedIndexes; n != nil {
			f.Invalid(path.Child("maxFailedIndexes"), *n, "requires indexed completion mode")
		}
		return
	}
	if s.Completions == nil {
		f.Required(path.Child("completions"), "when completion mode is Indexed")
	}
	atMost := func(child string, n *int32, most int32, detail string) {
		if n != nil && *n > most {
			f.Invalid(path.Child(child), *n, detail)
		}
	}
	atMost("parallelism", s.Parallelism, maxParallelism,
		fmt.Sprintf("must be less than or equal to %d when completion mode is Indexed", maxParallelism))
	if s.Completions != nil {
		atMost("maxFailedIndexes", s.MaxFailedIndexes, *s.Completions, "must be less than or equal to completions")
	}
	atMost("maxFailedIndexes", s.MaxFailedIndexes, maxParallelism, fmt.Sprintf("must be less than or equal to %d",
		maxParallelism))
	if s.Completions == nil || *s.Completions <= highCompletions || s.BackoffLimitPerIndex == nil {
		return
	}
	if s.MaxFailedIndexes == nil {
		f.Required(path.Child("maxFailedIndexes"), fmt.Sprintf("must be specified when completions is above %d",
			highCompletions))
	}
	tight := fmt.Sprintf("must be less than or equal to %d when completions are above %d and used with backoff limit "+
		"per index", maxParallelismForHighCompletions, highCompletions)
	atMost("parallelism", s.Parallelism, maxParallelismForHighCompletions, tight)
	atMost("maxFailedIndexes", s.MaxFailedIndexes, maxParallelismForHighCompletions, tight)
}

func checkReplacement(f *typed.Errors, s *batchv1.JobSpec, path *field.Path) {
	switch p := s.PodReplacementPolicy; {
	case p == nil:
	case s.PodFailurePolicy != nil:
		typed.Supported(f, path, *p, batchv1.Failed)
	default:
		typed.Supported(f, path, *p, batchv1.Failed, batchv1.TerminatingOrFailed)
	}
}

// checkCompletions lets an indexed Job grow and shrink, together with its parallelism.
func checkCompletions(f *typed.Errors, s, previous *batchv1.JobSpec) {
	path := spec().Child("completions")
	switch {
	case !indexed(s):
		f.Immutable(path, s.Completions, previous.Completions)
	case s.Completions == nil || apiequality.Semantic.DeepEqual(s.Completions, previous.Completions):
	case *s.Completions != typed.Deref(s.Parallelism):
		f.Invalid(path, *s.Completions, "can only be modified in tandem with spec.parallelism")
	}
}

// checkTemplateChange keeps the template, but for what a queue may decide while the Job waits
// suspended: where its Pods go and how much they get.
func checkTemplateChange(f *typed.Errors, j, previous *batchv1.Job) {
	allowed, now, path := previous.Spec.Template.DeepCopy(), &j.Spec.Template, spec().Child("template")
	if !isSuspendedNotStarted(previous) {
		if !apiequality.Semantic.DeepEqual(now, allowed) {
			f.Invalid(path, typed.GoFields(now), apivalidation.FieldImmutableErrorMsg)
		}
		return
	}
	allowScheduling(&allowed.Spec, &now.Spec)
	allowResources(allowed.Spec.Containers, now.Spec.Containers)
	allowResources(allowed.Spec.InitContainers, now.Spec.InitContainers)
	if !apiequality.Semantic.DeepEqual(now.Spec, allowed.Spec) {
		f.Invalid(path.Child("spec"), typed.GoFields(now.Spec), apivalidation.FieldImmutableErrorMsg)
	}
}

// isSuspendedNotStarted says that a Job is suspended and has no Pods to disagree with a changed
// template.
func isSuspendedNotStarted(j *batchv1.Job) bool {
	return typed.Deref(j.Spec.Suspend) &&
		(j.Status.StartTime == nil || hasCondition(j, batchv1.JobSuspended) && j.Status.Active == 0)
}

func allowScheduling(allowed, now *corev1.PodSpec) {
	switch {
	case now.Affinity == nil && allowed.Affinity != nil:
		allowed.Affinity.NodeAffinity = nil
		if *allowed.Affinity == (corev1.Affinity{}) {
			allowed.Affinity = nil
		}
	case now.Affinity != nil && allowed.Affinity == nil:
		allowed.Affinity = &corev1.Affinity{NodeAffinity: now.Affinity.NodeAffinity}
	case now.Affinity != nil:
		allowed.Affinity.NodeAffinity = now.Affinity.NodeAffinity
	}
	allowed.NodeSelector, allowed.Tolerations, allowed.SchedulingGates = now.NodeSelector, now.Tolerations,
		now.SchedulingGates
}

func allowResources(allowed, now []corev1.Container) {
	if len(allowed) != len(now) {
		return
	}
	for i := range allowed {
		if allowed[i].Name == now[i].Name {
			allowed[i].Resources = now[i].Resources
		}
	}
}
