#!/bin/sh
# Prints a number in Roman numerals.
echo I # the others will follow
