{{/* The policies of classic DRA: a list of names and specs. */}}
{{- define "dradriver.classic.policies" -}}
- name: reservations
  spec:
    matchConstraints:
      matchPolicy: Equivalent
      resourceRules:
        - apiGroups: [resource.k8s.io]
          apiVersions: [v1]
          operations: [UPDATE]
          resources: [resourceclaims/status]
    matchConditions:
      - name: an-allocated-classic-claim
        expression: >-
          has(object.status) && has(object.status.allocation) &&
          object.metadata.?finalizers.orValue([]).exists(name, name.endsWith('/deletion-protection'))
    variables:
      - name: before
        expression: oldObject.?status.?reservedFor.orValue([]).map(consumer, consumer.uid)
      - name: after
        expression: object.status.?reservedFor.orValue([]).map(consumer, consumer.uid)
      - name: requested
        expression: >-
          object.status.?devices.orValue([]).exists(device, device.?conditions.orValue([]).exists(condition,
          condition.type == 'DeallocationRequested' && condition.status == 'True'))
      - name: handles
        expression: >-
          object.status.allocation.?devices.?config.orValue([]).filter(config, config.?source.orValue('') == 'FromClass' &&
          has(config.opaque) && dyn(config.opaque.parameters).?apiVersion.orValue('') == 'classic.dradriver.dev/v1alpha1' &&
          dyn(config.opaque.parameters).?kind.orValue('') == 'ResourceHandle')
      - name: shareable
        expression: >-
          variables.handles.size() > 0 &&
          variables.handles.all(config, dyn(config.opaque.parameters).?shareable.orValue(false))
    validations:
      - expression: "!variables.requested || variables.after.all(uid, uid in variables.before)"
        message: >-
          status.reservedFor: no consumer can be added while the condition DeallocationRequested is True
        reason: Invalid
      # Entries that were there before stay allowed, so that each of them can be removed.
      - expression: >-
          variables.shareable || variables.after.size() <= 1 || variables.after.all(uid, uid in variables.before)
        message: >-
          status.reservedFor: must have at most one consumer, because the controller has not allocated the claim as
          shareable
        reason: Invalid
- name: finalizers
  spec:
    matchConstraints:
      matchPolicy: Equivalent
      resourceRules:
        - apiGroups: [resource.k8s.io]
          apiVersions: [v1]
          operations: [CREATE, UPDATE]
          resources: [resourceclaims]
    matchConditions:
      - name: changes-the-finalizer-of-a-controller
        expression: >-
          object.metadata.?finalizers.orValue([]).filter(name, name.endsWith('/deletion-protection')) !=
          (oldObject == null ? [] : oldObject.metadata.?finalizers.orValue([]).filter(name,
          name.endsWith('/deletion-protection')))
    variables:
      - name: before
        expression: >-
          oldObject == null ? [] : oldObject.metadata.?finalizers.orValue([]).filter(name,
          name.endsWith('/deletion-protection'))
      - name: after
        expression: object.metadata.?finalizers.orValue([]).filter(name, name.endsWith('/deletion-protection'))
      - name: changed
        expression: >-
          variables.after.filter(name, !(name in variables.before)) +
          variables.before.filter(name, !(name in variables.after))
    validations:
      - expression: variables.changed.size() <= 1
        message: "metadata.finalizers: one write can change the finalizer of one controller only"
        reason: Invalid
      - expression: >-
          variables.changed.size() != 1 || authorizer.group('classic.dradriver.dev').resource('controllers').name(
          variables.changed[0].split('/')[0]).check('negotiate').allowed()
        messageExpression: >-
          'metadata.finalizers: only the controller ' + variables.changed[0].split('/')[0] +
          ' can add or remove ' + variables.changed[0]
        reason: Forbidden
- name: classes
  spec:
    matchConstraints:
      matchPolicy: Equivalent
      resourceRules:
        - apiGroups: [resource.k8s.io]
          apiVersions: [v1]
          operations: [CREATE, UPDATE]
          resources: [deviceclasses]
    matchConditions:
      - name: a-class-of-a-controller
        expression: >-
          object.spec.?config.orValue([]).exists(config,
          config.?opaque.?driver.orValue('') == 'classic.dradriver.dev')
    variables:
      - name: entries
        expression: >-
          object.spec.config.filter(config, config.?opaque.?driver.orValue('') == 'classic.dradriver.dev')
    validations:
      - expression: variables.entries.size() == 1
        message: "spec.config: must have exactly one entry of the driver classic.dradriver.dev"
        reason: Invalid
      - expression: >-
          variables.entries.all(config,
          dyn(config.opaque.parameters).?apiVersion.orValue('') == 'classic.dradriver.dev/v1alpha1' &&
          dyn(config.opaque.parameters).?kind.orValue('') == 'ControllerClass' &&
          dyn(config.opaque.parameters).?controllerName.orValue('') != '')
        message: >-
          spec.config: the entry of the driver classic.dradriver.dev must be a ControllerClass of
          classic.dradriver.dev/v1alpha1 with a controllerName
        reason: Invalid
      - expression: >-
          object.spec.?selectors.orValue([]).size() == 1 &&
          object.spec.selectors[0].?cel.?expression.orValue('').trim() == 'false'
        message: >-
          spec.selectors: must be exactly one CEL expression `false`, or schedulers allocate any device for this class
        reason: Invalid
      - expression: object.spec.?extendedResourceName.orValue('') == ''
        message: "spec.extendedResourceName: must not be set, because extended resources are allocated from slices"
        reason: Invalid
- name: contexts
  spec:
    matchConstraints:
      matchPolicy: Equivalent
      resourceRules:
        - apiGroups: [classic.dradriver.dev]
          apiVersions: [v1alpha1]
          operations: [CREATE, UPDATE]
          resources: [podschedulingcontexts]
    matchConditions:
      - name: changes-the-spec
        expression: oldObject == null || object.spec != oldObject.spec
    validations:
      # A scheduler can create contexts in all namespaces.
      - expression: authorizer.group('classic.dradriver.dev').resource('podschedulingcontexts').check('create').allowed()
        message: "spec: only a scheduler can write it"
        reason: Forbidden
      - expression: >-
          object.metadata.?ownerReferences.orValue([]).exists(owner, owner.kind == 'Pod' && owner.apiVersion == 'v1' &&
          owner.name == object.metadata.name)
        message: "metadata.ownerReferences: must have the pod with the name of this object"
        reason: Invalid
- name: answers
  spec:
    matchConstraints:
      matchPolicy: Equivalent
      resourceRules:
        - apiGroups: [classic.dradriver.dev]
          apiVersions: [v1alpha1]
          operations: [UPDATE]
          resources: [podschedulingcontexts/status]
    variables:
      - name: before
        expression: oldObject.?status.?resourceClaims.orValue([])
      - name: after
        expression: object.?status.?resourceClaims.orValue([])
      - name: added
        expression: variables.after.filter(entry, !(entry in variables.before))
      # An entry that gets a new value is not removed. It may be of a controller that had the class of the claim
      # before: that controller may not run any more, and then nobody else could remove the entry.
      - name: removed
        expression: >-
          variables.before.filter(entry, !(entry in variables.after) &&
          !variables.added.exists(other, other.name == entry.name))
      - name: controllers
        expression: (variables.added + variables.removed).map(entry, entry.controllerName)
    validations:
      - expression: variables.controllers.all(name, name == variables.controllers[0])
        message: "status.resourceClaims: one write can change the entries of one controller only"
        reason: Invalid
      - expression: >-
          variables.controllers.size() == 0 || authorizer.group('classic.dradriver.dev').resource('controllers').name(
          variables.controllers[0]).check('negotiate').allowed()
        messageExpression: >-
          'status.resourceClaims: only the controller ' + variables.controllers[0] + ' can write its entries'
        reason: Forbidden
- name: records
  spec:
    matchConstraints:
      matchPolicy: Equivalent
      resourceRules:
        - apiGroups: [classic.dradriver.dev]
          apiVersions: [v1alpha1]
          operations: [CREATE, UPDATE, DELETE]
          resources: [controllerallocations]
    matchConditions:
      # These controllers of Kubernetes remove records with their namespace. The last name is the one of both, if
      # kube-controller-manager runs without --use-service-account-credentials.
      - name: not-a-deletion-by-kubernetes
        expression: >-
          object != null || !(request.userInfo.username in [
          'system:serviceaccount:kube-system:namespace-controller',
          'system:serviceaccount:kube-system:generic-garbage-collector',
          'system:kube-controller-manager'])
    validations:
      - expression: >-
          authorizer.group('classic.dradriver.dev').resource('controllers').name(
          (object == null ? oldObject : object).spec.controllerName).check('negotiate').allowed()
        messageExpression: >-
          'only the controller ' + (object == null ? oldObject : object).spec.controllerName + ' can write its records'
        reason: Forbidden
- name: deallocations
  spec:
    matchConstraints:
      matchPolicy: Equivalent
      resourceRules:
        - apiGroups: [classic.dradriver.dev]
          apiVersions: [v1alpha1]
          operations: [UPDATE]
          resources: [controllerallocations/status]
    validations:
      - expression: authorizer.group('classic.dradriver.dev').resource('podschedulingcontexts').check('create').allowed()
        message: "status: only a scheduler can write it"
        reason: Forbidden
{{- end -}}
