#!/bin/sh
. /guest/cases.sh
finish
