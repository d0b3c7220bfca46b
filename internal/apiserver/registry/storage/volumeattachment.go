package storage

import (
	"context"
	"math"

	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/operation"
	"k8s.io/apimachinery/pkg/api/validate"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gantry-project/gantry/internal/apiserver/registry/core"
	"github.com/gantry-project/gantry/internal/apiserver/registry/printers"
	"github.com/gantry-project/gantry/internal/apiserver/registry/resourcedef"
	"github.com/gantry-project/gantry/internal/apiserver/registry/typed"
)

// Limits of what a driver may report about an attachment, in bytes.
const (
	maxMetadataLength = 256 * 1024
	maxErrorLength    = 1024
)

func volumeAttachments() resourcedef.Kind {
	spec, status := storagev1.VolumeAttachmentSpec{}.SwaggerDoc(), storagev1.VolumeAttachmentStatus{}.SwaggerDoc()
	k := newKind("volumeattachments",
		"VolumeAttachment", typed.NewTypes[storagev1.VolumeAttachment, storagev1.VolumeAttachmentList]())
	k.Types.HasStatus = true
	k.Types.StatusResetFields = []string{"metadata"}
	k.Rules = typed.Rules[storagev1.VolumeAttachment]{
		Validate:       checkAttachment,
		ValidateStatus: checkAttachmentStatus,
	}.Untyped()
	k.Table = resourcedef.Table{
		Columns: []metav1.TableColumnDefinition{
			printers.NameColumn(), {Name: "Attacher", Type: "string", Format: "name", Description: spec["attacher"]},
			printers.StringColumn("PV", storagev1.VolumeAttachmentSource{}.SwaggerDoc()["persistentVolumeName"]),
			printers.StringColumn("Node", spec["nodeName"]), boolean("Attached", status["attached"]),
			printers.AgeColumn(),
		},
		Row: typed.RowFunc(func(v *storagev1.VolumeAttachment, o resourcedef.RowOptions) []any {
			return []any{v.Name, v.Spec.Attacher, typed.Deref(v.Spec.Source.PersistentVolumeName), v.Spec.NodeName,
				v.Status.Attached, printers.TimestampSince(v.CreationTimestamp, o.Now)}
		}),
	}
	return k
}

const exactlyOneSource = "must specify exactly one of inlineVolumeSpec and persistentVolumeName"

func checkAttachment(v, previous *storagev1.VolumeAttachment) field.ErrorList {
	var f typed.Errors
	s := &v.Spec
	source := spec().Child("source")
	switch name := s.Source.PersistentVolumeName; {
	case name == nil && s.Source.InlineVolumeSpec == nil:
		f.Required(source, exactlyOneSource)
	case name != nil && s.Source.InlineVolumeSpec != nil:
		f.Forbidden(source, exactlyOneSource)
	case name != nil && *name == "":
		f.Required(source.Child("persistentVolumeName"), "must specify non empty persistentVolumeName")
	case name == nil:
		f.Add(core.ValidateInlineVolume(s.Source.InlineVolumeSpec, source.Child("inlineVolumeSpec"))...)
	}
	f.DNSSubdomain(spec().Child("nodeName"), s.NodeName)
	if name := s.Source.PersistentVolumeName; name != nil {
		f.DNSSubdomain(source.Child("persistentVolumeName"), *name)
	}
	// declared at v1.37.2's type: validated last
	f.Add(declaredAttacher(s.Attacher, spec().Child("attacher"))...)
	if previous != nil {
		f.ImmutableWithoutValue(spec(), s, &previous.Spec)
	}
	return f.List()
}

// declaredAttacher wants the name of a driver, as the type's tags say.
func declaredAttacher(name string, p *field.Path) field.ErrorList {
	if name == "" {
		return field.ErrorList{field.Required(p, "")}
	}
	ctx, op := context.Background(), operation.Operation{}
	const longest = 63
	return append(validate.LongNameCaseless(ctx, op, p, &name, nil),
		validate.MaxLength(ctx, op, p, &name, nil, longest)...)
}

func checkAttachmentStatus(v, _ *storagev1.VolumeAttachment) field.ErrorList {
	var f typed.Errors
	status := field.NewPath("status")
	size := 0
	for k, value := range v.Status.AttachmentMetadata {
		size += len(k) + len(value)
	}
	if size > maxMetadataLength {
		f.Add(field.TooLong(status.Child("attachmentMetadata"), "", maxMetadataLength))
	}
	for _, e := range []struct {
		child string
		err   *storagev1.VolumeError
	}{{"attachError", v.Status.AttachError}, {"detachError", v.Status.DetachError}} {
		if e.err == nil {
			continue
		}
		if len(e.err.Message) > maxErrorLength {
			f.Add(field.TooLong(status.Child(e.child, "message"), "", maxErrorLength))
		}
		if c := e.err.ErrorCode; c != nil && *c < 0 {
			f.Invalid(status.Child(e.child, "errorCode"), *c, validation.InclusiveRangeError(0, math.MaxInt32))
		}
	}
	return f.List()
}
