package batch

import (
	"regexp"
	"strings"
	"time"
	_ "time/tzdata" // zones are validated alike on hosts with and without a zone database

	"github.com/robfig/cron/v3"
	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gantry-project/gantry/internal/apiserver/registry/typed"
)

// cronJobNameSuffix is what the name of a Job adds to its CronJob's: a dash and ten digits of
// minutes.
const cronJobNameSuffix = 11

func checkCronJob(c, previous *batchv1.CronJob) field.ErrorList {
	var f typed.Errors
	s := &c.Spec
	checkSchedule(&f, s, previous)
	if s.StartingDeadlineSeconds != nil {
		f.NotNegative(spec().Child("startingDeadlineSeconds"), *s.StartingDeadlineSeconds)
	}
	if previous == nil || typed.Deref(previous.Spec.TimeZone) != typed.Deref(s.TimeZone) ||
		(previous.Spec.TimeZone == nil) != (s.TimeZone == nil) {
		checkZone(&f, s.TimeZone)
	}
	if s.ConcurrencyPolicy == "" {
		f.Required(spec().Child("concurrencyPolicy"), "")
	} else {
		typed.Supported(&f, spec().Child("concurrencyPolicy"), s.ConcurrencyPolicy, batchv1.AllowConcurrent,
			batchv1.ForbidConcurrent, batchv1.ReplaceConcurrent)
	}
	path, work := spec().Child("jobTemplate", "spec"), &s.JobTemplate.Spec
	checkWork(&f, work, path)
	if work.Selector != nil {
		f.Invalid(path.Child("selector"), work.Selector, "`selector` will be auto-generated")
	}
	if typed.Deref(work.ManualSelector) {
		f.Add(field.NotSupported(path.Child("manualSelector"), true, []string{"nil", "false"}))
	}
	f.NotNegativeIf(spec().Child("successfulJobsHistoryLimit"), s.SuccessfulJobsHistoryLimit)
	f.NotNegativeIf(spec().Child("failedJobsHistoryLimit"), s.FailedJobsHistoryLimit)
	if previous == nil && len(c.Name) > validation.DNS1035LabelMaxLength-cronJobNameSuffix {
		f.Invalid(field.NewPath("metadata", "name"), c.Name, "must be no more than 52 characters")
	}
	return f.List()
}

func checkSchedule(f *typed.Errors, s *batchv1.CronJobSpec, previous *batchv1.CronJob) {
	path := spec().Child("schedule")
	if s.Schedule == "" {
		f.Required(path, "")
		return
	}
	// The library panics on a zone that nothing follows; v1.37.2 tells with which words.
	if !strings.Contains(s.Schedule, " ") &&
		(strings.HasPrefix(s.Schedule, "TZ=") || strings.HasPrefix(s.Schedule, "CRON_TZ=")) {
		f.Invalid(path, s.Schedule, "invalid schedule format: runtime error: slice bounds out of range [:-1]")
	} else if _, err := cron.ParseStandard(s.Schedule); err != nil {
		f.Invalid(path, s.Schedule, err.Error())
	}
	const zone = "TZ"
	had := previous != nil && strings.Contains(previous.Spec.Schedule, zone)
	switch {
	case !strings.Contains(s.Schedule, zone):
	case !had:
		f.Invalid(path, s.Schedule, "cannot use TZ or CRON_TZ in schedule, use timeZone field instead")
	case s.TimeZone != nil:
		f.Invalid(path, s.Schedule, "cannot use both timeZone field and TZ or CRON_TZ in schedule")
	}
}

// zonePart is what a part of a zone's name may look like:
// https://data.iana.org/time-zones/theory.html#naming, older names tolerated.
var zonePart = regexp.MustCompile(`^[A-Za-z._0-9+][A-Za-z._0-9+-]{0,13}$`)

func checkZone(f *typed.Errors, zone *string) {
	path := spec().Child("timeZone")
	if zone == nil {
		return
	}
	if *zone == "" {
		f.Invalid(path, *zone, "timeZone must be nil or non-empty string")
		return
	}
	for _, part := range strings.Split(*zone, "/") {
		if part == "." || part == ".." || !zonePart.MatchString(part) {
			f.Invalid(path, *zone, "unknown time zone "+*zone)
			return
		}
	}
	if strings.EqualFold(*zone, "Local") {
		f.Invalid(path, *zone, "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones")
	}
	if _, err := time.LoadLocation(*zone); err != nil {
		f.Invalid(path, *zone, err.Error())
	}
}
