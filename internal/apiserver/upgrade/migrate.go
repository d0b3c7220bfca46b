package upgrade

import (
	"context"
	"errors"
	"fmt"
	"time"

	migrationv1 "k8s.io/api/storagemigration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	migrationclient "k8s.io/client-go/kubernetes/typed/storagemigration/v1"
	"k8s.io/klog/v2"
)

// Reasons of a migration's conditions, upstream's.
const (
	reasonRuns   = "StorageVersionMigrationInProgress"
	reasonDone   = "StorageVersionMigrationSucceeded"
	reasonFailed = "StorageVersionMigrationFailed"
)

// unknownFor is how long a migration waits for its resource to be served. Upstream's figure.
const unknownFor = time.Minute

// ErrNotServed says that no resource of this name can be read and written.
var ErrNotServed = errors.New("resource not found")

// Migrations carries out StorageVersionMigrations, one after the other.
type Migrations struct {
	Client   migrationclient.StorageVersionMigrationInterface
	Upgrader *Upgrader
	// Made tells of new ones; those of other API servers are found every Period.
	Made   <-chan struct{}
	Period time.Duration
}

// Run works until ctx ends. What a server that ended left half done is taken up again.
func (m *Migrations) Run(ctx context.Context) {
	later := time.NewTimer(0)
	defer later.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-m.Made:
		case <-later.C:
		}
		next := m.Period
		if err := m.once(ctx); err != nil && ctx.Err() == nil {
			klog.FromContext(ctx).V(2).Info("Stored objects could not be migrated; the next try is in a second", "err", err)
			next = time.Second
		}
		later.Reset(next)
	}
}

// once goes over all that are not finished; one that cannot go on now holds up no other.
func (m *Migrations) once(ctx context.Context) error {
	all, err := m.Client.List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("list storage version migrations: %w", err)
	}
	var failed error
	for i := range all.Items {
		if s := &all.Items[i]; !finished(s) && s.DeletionTimestamp == nil {
			if err := m.migrate(ctx, s); err != nil {
				failed = errors.Join(failed, fmt.Errorf("storage version migration %s: %w", s.Name, err))
			}
		}
	}
	return failed
}

func (m *Migrations) migrate(ctx context.Context, s *migrationv1.StorageVersionMigration) error {
	gr := schema.GroupResource{Group: s.Spec.Resource.Group, Resource: s.Spec.Resource.Resource}
	revision, err := m.Upgrader.Revision(ctx, gr)
	switch {
	case errors.Is(err, ErrNotServed) && time.Since(s.CreationTimestamp.Time) > unknownFor:
		return m.write(ctx, ended(s, err, metav1.Now()))
	case err != nil:
		return err
	}
	started := began(s, revision, metav1.Now())
	if s, err = m.Client.UpdateStatus(ctx, started, metav1.UpdateOptions{}); err != nil {
		return ignore(err)
	}
	report, err := m.Upgrader.Only(ctx, gr)
	if err == nil && report.Left > 0 {
		err = fmt.Errorf("migration encountered unhandled error: %d of %d objects could not be written: %s", report.Left, report.Objects, report.Problems[0])
	} else if err != nil {
		return err // the server is away or ends: the next try goes on
	}
	return m.write(ctx, ended(s, err, metav1.Now()))
}

func (m *Migrations) write(ctx context.Context, s *migrationv1.StorageVersionMigration) error {
	_, err := m.Client.UpdateStatus(ctx, s, metav1.UpdateOptions{})
	return ignore(err)
}

// ignore leaves out that somebody was quicker: another API server, or who deleted the migration. The next round sees what is.
func ignore(err error) error {
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

func finished(s *migrationv1.StorageVersionMigration) bool {
	is := func(t migrationv1.MigrationConditionType) bool {
		return meta.IsStatusConditionTrue(s.Status.Conditions, string(t))
	}
	return is(migrationv1.MigrationSucceeded) || is(migrationv1.MigrationFailed)
}

// began is a migration that runs, over what is stored at a revision.
func began(s *migrationv1.StorageVersionMigration, revision string, now metav1.Time) *migrationv1.StorageVersionMigration {
	s = s.DeepCopy()
	if s.Status.ResourceVersion == "" {
		s.Status.ResourceVersion = revision
	}
	set(s, migrationv1.MigrationRunning, metav1.Condition{Status: metav1.ConditionTrue, Reason: reasonRuns, LastTransitionTime: now})
	return s
}

// ended is a migration that is over, well when err is nil.
func ended(s *migrationv1.StorageVersionMigration, err error, now metav1.Time) *migrationv1.StorageVersionMigration {
	s = s.DeepCopy()
	if c := meta.FindStatusCondition(s.Status.Conditions, string(migrationv1.MigrationRunning)); c != nil {
		set(s, migrationv1.MigrationRunning, metav1.Condition{Status: metav1.ConditionFalse, Reason: c.Reason, Message: c.Message, LastTransitionTime: now})
	}
	if err == nil {
		set(s, migrationv1.MigrationSucceeded, metav1.Condition{Status: metav1.ConditionTrue, Reason: reasonDone, LastTransitionTime: now})
	} else {
		set(s, migrationv1.MigrationFailed, metav1.Condition{Status: metav1.ConditionTrue, Reason: reasonFailed, Message: err.Error(), LastTransitionTime: now})
	}
	return s
}

func set(s *migrationv1.StorageVersionMigration, t migrationv1.MigrationConditionType, c metav1.Condition) {
	c.Type = string(t)
	meta.SetStatusCondition(&s.Status.Conditions, c)
}
